#pragma once

#include "regauge/symmetry/matrix_group.h"

namespace regauge {

// GL(n, R).
class GeneralLinear {
 public:
  explicit GeneralLinear(std::int64_t size) : size_(size) {}

  std::string name() const;
  std::int64_t size() const { return size_; }
  std::int64_t dimension() const { return size_ * size_; }
  double log2_components() const { return 1; }
  Matrix<double> random(Random& random) const;
  Matrix<double> project(const Matrix<double>& matrix) const { return matrix; }
  double violation(const Matrix<double>& matrix) const;

 private:
  std::int64_t size_;
};

}  // namespace regauge
