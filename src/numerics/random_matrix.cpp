#include "random_matrix.h"

#include <cmath>

#include "base/blas.h"

namespace regauge {

Matrix<double> random_gaussian(std::int64_t size, Random& random) {
  Matrix<double> matrix(size, size);
  for (auto& entry : matrix.reshaped<Eigen::RowMajor>()) entry = random.normal();
  return matrix;
}

Matrix<double> random_rotation(std::int64_t size, Random& random) {
  Matrix<double> matrix = random_gaussian(size, random);
  qr_orthogonal<double>(size, matrix.data());
  return matrix;
}

Matrix<double> random_invertible(std::int64_t size, Random& random) {
  const Matrix<double> left = random_rotation(size, random);
  const Matrix<double> right = random_rotation(size, random);
  Eigen::VectorXd stretch(size);
  for (auto& entry : stretch) entry = std::exp2(2 * random.uniform() - 1);
  return left * stretch.asDiagonal() * right;
}

}  // namespace regauge
