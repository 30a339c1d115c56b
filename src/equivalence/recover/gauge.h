#pragma once

#include <set>
#include <string>

#include "equivalence/read_part.h"
#include "regauge/arch/parameters.h"

namespace regauge {

// The blocks of a space of one layer that carry b's tensors to a's, places already matched: the
// least squares solution of T_a = T_b G on its axes and T_b = T_a G^T on dual ones, inside the
// group. Axes on which a space of `unknown` acts too are left out. What the tensors do not
// determine, given their relative `rounding`, is chosen so that the blocks are invertible. A tensor
// counts less where its rounding is `enlarged`, in the mean square.
BlockMap<double> least_squares_blocks(const Symmetry& symmetry, const Space& space,
                                      const std::set<std::string>& unknown,
                                      const Parameters<double>& a, const Parameters<double>& b,
                                      double rounding, const Enlarged& enlarged);

// Behind a QK-norm: the lengths of heads and keys, and the exchange of gains.
Element recover_qk_norm(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& a,
                        const Parameters<double>& b);

}  // namespace regauge
