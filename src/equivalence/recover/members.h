#pragma once

#include <cstdint>
#include <vector>

#include "regauge/numerics/matrix.h"
#include "regauge/symmetry/space.h"

namespace regauge {

// Heads to heads, or neurons to neurons, by a row of each. In groups: bundles of experts outside,
// in them kv heads, or experts, by what their members compute together; the members of a group
// inside.
std::vector<std::int64_t> match_members(const Space& space, const Matrix<double>& b,
                                        const Matrix<double>& a, double rounding);

}  // namespace regauge
