#pragma once

#include <string>
#include <vector>

#include "regauge/equivalence/compare.h"

namespace regauge {

// What an element does, for people: "residual rotation", "64 coordinates".
struct Movement {
  std::string what;
  std::string where;
};

// The factors by which a_from_b moves more than the rounding that `residuals` state, in the order
// stream, norms, heads, neurons, constants. Gains are called folded where one of the models has
// none left.
std::vector<Movement> describe(const Symmetry& symmetry, const Element& a_from_b,
                               const std::vector<TensorResidual>& residuals,
                               const ParameterSource& a, const ParameterSource& b);

}  // namespace regauge
