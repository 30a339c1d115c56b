#include "regauge/symmetry/orthogonal.h"

#include <fmt/format.h>

#include "numerics/decompositions.h"
#include "numerics/dense.h"
#include "numerics/random_matrix.h"
#include "regauge/symmetry/block_map.h"

namespace regauge {

Orthogonal::Orthogonal(const Matrix<double>& fixed) : fixed_(0, fixed.cols()) {
  if (fixed.rows() == 0 || fixed.cwiseAbs().maxCoeff() == 0) return;
  fixed_ = row_space(fixed, 1e-14);
}

std::string Orthogonal::name() const { return fmt::format("O({})", free()); }

Matrix<double> Orthogonal::random(Random& random) const {
  if (fixed_.rows() == 0) return random_rotation(size(), random);
  // R = F^T F + C^T Q C with C an orthonormal basis of the complement.
  const Matrix<double> others = complement(fixed_);
  Matrix<double> rotation = product_transposed(fixed_, fixed_);
  if (free() > 0) {
    rotation += product_transposed(others, product(random_rotation(free(), random), others));
  }
  return rotation;
}

Matrix<double> Orthogonal::project(const Matrix<double>& matrix) const {
  Matrix<double> skew = (matrix - matrix.transpose()) / 2;
  skew -= skew * fixed_.transpose() * fixed_;
  skew -= fixed_.transpose() * (fixed_ * skew);
  return skew;
}

double Orthogonal::violation(const Matrix<double>& matrix) const {
  if (!matrix.allFinite()) return 1;
  const double orthogonal =
      (product_transposed(matrix, matrix) - Matrix<double>::Identity(size(), size()))
          .cwiseAbs()
          .maxCoeff();
  if (fixed_.rows() == 0) return orthogonal;
  return std::max(orthogonal, (fixed_ * matrix - fixed_).cwiseAbs().maxCoeff());
}

}  // namespace regauge
