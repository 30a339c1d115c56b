#pragma once

#include "regauge/arch/architecture.h"
#include "regauge/arch/parameters.h"

namespace regauge {

// What a router makes of its logits, [tokens, experts]: the weight of each expert, 0 for those that
// are not chosen.
template <class Scalar>
Matrix<Scalar> expert_weights(const Experts& experts, const Matrix<Scalar>& logits);

}  // namespace regauge
