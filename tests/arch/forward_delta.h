#pragma once

#include "regauge/arch/parameters.h"

namespace regauge::testing {

// The gated delta net of a layer, plainly; x is [positions, width]. `at`: "layers.3.delta.".
Matrix<double> delta_net(const DeltaNet& shape, double norm_eps,
                         const Parameters<double>& parameters, const std::string& at,
                         const Matrix<double>& x);

}  // namespace regauge::testing
