#pragma once

#include "regauge/arch/parameters.h"

namespace regauge::testing {

// What the convolutions make of vectors, a row each.
Matrix<double> convolved(const Architecture& architecture, const Parameters<double>& parameters,
                         Matrix<double> vectors);
// What the positional convolution adds to the stream.
Matrix<double> positional(const Architecture& architecture, const Parameters<double>& parameters,
                          const Matrix<double>& stream);

}  // namespace regauge::testing
