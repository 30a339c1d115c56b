#include "sketch.h"

#include <Eigen/LU>

#include <algorithm>
#include <cmath>

#include "regauge/symmetry/block_map.h"

namespace regauge {
namespace {

constexpr std::int64_t kPerColumn = 16;

}  // namespace

Matrix<double> sketch(const Matrix<double>& rows, std::int64_t width) {
  Matrix<double> result = Matrix<double>::Zero(width, rows.cols());  // rows are contiguous
  const auto entries = std::max<std::int64_t>(1, kPerColumn * width / rows.rows());
  Random random(0, "canon");
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    for (std::int64_t n = 0; n < entries; ++n) {
      const auto column = static_cast<Eigen::Index>(random.below(width));
      result.row(column) += (2 * random.uniform() - 1) * rows.row(i);
    }
  }
  return result.transpose();
}

Matrix<double> nearest_turn(const Matrix<double>& m) {
  // Directions that m does not know stay where they are.
  const Eigen::MatrixXd known =
      m + (1e-13 * m.norm() + 1e-300) * Matrix<double>::Identity(m.rows(), m.cols());
  const Svd parts = svd(known);
  return product(parts.u, parts.v.transpose());
}

// Newton's iteration x -> (s x + (s x)^-T) / 2 with Higham's scaling, and once it is near
// x -> x (3 - x^T x) / 2, which needs only products.
double turn_nearest(Matrix<double>& m) {
  const Matrix<double> identity = Matrix<double>::Identity(m.rows(), m.cols());
  double condition = 0;
  for (int step = 0; step < 60; ++step) {
    const Eigen::PartialPivLU<Matrix<double>> lu(m);
    if (step == 0) condition = lu.rcond();
    if (!(condition > 1e-13)) return 0;
    const Matrix<double> dual = lu.inverse().transpose();
    const double scale = std::sqrt(dual.norm() / m.norm());
    m = (scale * m + dual / scale) / 2;
    if ((product_transposed(m, m) - identity).norm() < 0.1) break;
  }
  for (int step = 0; step < 6; ++step) {
    m = product(m, 1.5 * identity - 0.5 * product_transposed(m, m));
  }
  return condition;
}

}  // namespace regauge
