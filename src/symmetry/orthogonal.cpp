#include "regauge/symmetry/orthogonal.h"

#include <Eigen/QR>
#include <fmt/format.h>

#include "regauge/symmetry/block_map.h"

namespace regauge {

Orthogonal::Orthogonal(const Matrix<double>& fixed) : fixed_(0, fixed.cols()) {
  if (fixed.rows() == 0 || fixed.cwiseAbs().maxCoeff() == 0) return;
  const Matrix<double> columns = fixed.transpose();
  Eigen::ColPivHouseholderQR<Matrix<double>> qr(columns);
  qr.setThreshold(1e-14);
  const Matrix<double> basis = qr.householderQ();
  fixed_ = basis.leftCols(qr.rank()).transpose();
}

std::string Orthogonal::name() const { return fmt::format("O({})", free()); }

Matrix<double> Orthogonal::random(Random& random) const {
  if (fixed_.rows() == 0) return random_rotation(size(), random);
  // R = F^T F + C^T Q C with C an orthonormal basis of the complement.
  const Eigen::HouseholderQR<Matrix<double>> qr(fixed_.transpose());
  const Matrix<double> basis = qr.householderQ();
  const Matrix<double> complement = basis.rightCols(free()).transpose();
  Matrix<double> rotation = product_transposed(fixed_, fixed_);
  if (free() > 0) {
    rotation +=
        product_transposed(complement, product(random_rotation(free(), random), complement));
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
