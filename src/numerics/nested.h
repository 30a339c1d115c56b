#pragma once

#include <vector>

#include "regauge/numerics/matrix.h"

namespace regauge {

// The best permutation of S_g wr S_n: groups of g members change places as wholes, and members
// within their group. `members` [n g, n g] and `groups` [n, n] say what each pair is worth. Where
// groups lie in several bundles, these change places as wholes, and groups within their bundle.
// target[i] is the place that member i goes to.
struct NestedAssignment {
  std::vector<std::int64_t> target;
  double value = 0;
};
NestedAssignment assign_nested(const Matrix<double>& members, const Matrix<double>& groups,
                               std::int64_t bundles = 1);

// The best permutation for a small matrix of similarities: target[i] for row i.
NestedAssignment assign_rows(const Matrix<double>& similarity);

}  // namespace regauge
