#pragma once

#include "regauge/arch/architecture.h"
#include "regauge/arch/parameters.h"

namespace regauge {

// What a router makes of its logits, [tokens, experts]: the weight of each expert, 0 for those that
// are not chosen. `selection`: the bias of the choice, [1, experts], or null.
template <class Scalar>
Matrix<Scalar> expert_weights(const Experts& experts, const Matrix<Scalar>& logits,
                              const Matrix<Scalar>* selection);

}  // namespace regauge
