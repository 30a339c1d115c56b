#pragma once

#include "regauge/arch/architecture.h"
#include "regauge/arch/parameters.h"

namespace regauge {

// False where the best experts of all are chosen whatever their groups: their groups are ranked by
// their best expert alone, and no more experts are chosen than groups.
bool groups_bind(const Experts& experts);

// What a router makes of its logits, [tokens, experts]: the weight of each expert, 0 for those that
// are not chosen. `selection`: the bias of the choice, [1, experts], or null.
template <class Scalar>
Matrix<Scalar> expert_weights(const Experts& experts, const Matrix<Scalar>& logits,
                              const Matrix<Scalar>* selection);

}  // namespace regauge
