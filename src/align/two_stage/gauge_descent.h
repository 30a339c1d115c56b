#pragma once

#include "regauge/symmetry/space.h"

namespace regauge {

// min over X in the group of |q_A - q_B X|^2 + |k_A - k_B X^-T|^2, the two sides of a space, by
// their products: cross = q_B^T q_A, gram = q_B^T q_B, and so for k.
struct TwoSides {
  Matrix<double> cross_q, gram_q, cross_k, gram_k;

  explicit TwoSides(std::int64_t width);
  template <class Left, class Right>
  void add_q(const Left& a, const Right& b) {
    cross_q += b.transpose() * a;
    gram_q += b.transpose() * b;
  }
  template <class Left, class Right>
  void add_k(const Left& a, const Right& b) {
    cross_k += b.transpose() * a;
    gram_k += b.transpose() * b;
  }
  // Up to a constant.
  double value(const Matrix<double>& x) const;
};

// The best orthogonal member of the group for both sides.
Matrix<double> orthogonal_in_group(const TwoSides& sides, const BlockGroup& group);

// As the published matcher is reported to do it: gradient descent from the orthogonal solution.
// Where the group is one complex number per rotary pair, Brent's method in one variable for each.
Matrix<double> descend_in_group(const TwoSides& sides, const BlockGroup& group);

}  // namespace regauge
