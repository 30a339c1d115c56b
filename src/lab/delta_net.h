#pragma once

#include "regauge/arch/architecture.h"
#include "tensors.h"

namespace regauge::lab {

// What the delta net of a layer writes; x is [sequences, positions, width]. `at`:
// "layers.3.delta.".
at::Tensor delta_net(const DeltaNet& shape, double norm_eps, const Tensors& parameters,
                     const std::string& at, const at::Tensor& x);

}  // namespace regauge::lab
