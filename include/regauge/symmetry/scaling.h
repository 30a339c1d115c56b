#pragma once

#include "regauge/symmetry/matrix_group.h"

namespace regauge {

// Subgroups of R^x, one number per block: {1}, {1, -1}, the positive numbers, all but 0.
class Scaling {
 public:
  enum class Kind { trivial, signs, positive, nonzero };
  explicit Scaling(Kind kind) : kind_(kind) {}

  Kind kind() const { return kind_; }
  std::string name() const;
  std::int64_t size() const { return 1; }
  std::int64_t dimension() const { return is_continuous() ? 1 : 0; }
  double log2_components() const { return has_signs() ? 1 : 0; }
  Matrix<double> random(Random& random) const;
  Matrix<double> project(const Matrix<double>& matrix) const;
  double violation(const Matrix<double>& matrix) const;

 private:
  bool is_continuous() const { return kind_ == Kind::positive || kind_ == Kind::nonzero; }
  bool has_signs() const { return kind_ == Kind::signs || kind_ == Kind::nonzero; }
  Kind kind_;
};

}  // namespace regauge
