#include "rows.h"

namespace regauge {

Matrix<double> side_by_side(const std::vector<Matrix<double>>& parts) {
  Eigen::Index cols = 0;
  for (const auto& part : parts) cols += part.cols();
  Matrix<double> all(parts.front().rows(), cols);
  Eigen::Index at = 0;
  for (const auto& part : parts) {
    all.middleCols(at, part.cols()) = part;
    at += part.cols();
  }
  return all;
}

Matrix<double> repeated(const Matrix<double>& rows, std::int64_t times) {
  Matrix<double> all(rows.rows() * times, rows.cols());
  for (Eigen::Index i = 0; i < all.rows(); ++i) all.row(i) = rows.row(i / times);
  return all;
}

Matrix<double> summed_runs(const Matrix<double>& rows, std::int64_t size) {
  Matrix<double> sums(rows.rows() / size, 2 * rows.cols());
  for (Eigen::Index i = 0; i < sums.rows(); ++i) {
    const auto members = rows.middleRows(i * size, size);
    sums.row(i) << members.colwise().sum(), members.colwise().squaredNorm();
  }
  return sums;
}

}  // namespace regauge
