#pragma once

#include "regauge/arch/architecture.h"
#include "tensors.h"

namespace regauge::lab {

// What a router makes of its logits: for each expert its weight, 0 for those that are not chosen.
// `bias`: of the choice, or undefined.
at::Tensor expert_weights(const Experts& experts, const at::Tensor& logits, const at::Tensor& bias);

}  // namespace regauge::lab
