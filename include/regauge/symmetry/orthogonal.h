#pragma once

#include "regauge/symmetry/matrix_group.h"

namespace regauge {

// O(n), or the R in O(n) that leave every vector of a given subspace where it is: O(n - rank).
class Orthogonal {
 public:
  explicit Orthogonal(std::int64_t size) : Orthogonal(Matrix<double>(0, size)) {}
  // The rows of `fixed` ([any, n]) span the subspace; directions below 1e-14 of the largest count
  // as absent.
  explicit Orthogonal(const Matrix<double>& fixed);

  std::string name() const;
  std::int64_t size() const { return fixed_.cols(); }
  std::int64_t dimension() const { return free() * (free() - 1) / 2; }
  double log2_components() const { return free() > 0 ? 1 : 0; }
  Matrix<double> random(Random& random) const;
  Matrix<double> project(const Matrix<double>& matrix) const;
  double violation(const Matrix<double>& matrix) const;

  // Orthonormal rows that span what stays fixed.
  const Matrix<double>& fixed() const { return fixed_; }

 private:
  std::int64_t free() const { return size() - fixed_.rows(); }
  Matrix<double> fixed_;
};

}  // namespace regauge
