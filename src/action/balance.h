#pragma once

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// The balanced gauge (theory.md section 5): coordinates inside heads and lengths of neurons such
// that what reads a space is as large as what writes to it, Q^T Q = K^T K, U^T U = O O^T,
// |q_b| = |k_b|, |up_i| = |down_i|. It minimises the squared norm of `tensors` over those factors;
// what remains free is orthogonal. `tensors` holds whole layers, or the whole model; they count as
// they stand, so fold norms first. Directions that one side does not use (a zero or rank-deficient
// head, a dead neuron) have no minimum and keep their length.
Element balance(const Symmetry& symmetry, const Parameters<double>& tensors);

}  // namespace regauge
