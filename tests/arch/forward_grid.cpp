#include "forward_grid.h"

#include <cmath>

namespace regauge::testing {

double place(const Architecture& a, Eigen::Index t, Eigen::Index rows, bool column) {
  const Eigen::Index patch = t - a.leading_rows();
  if (patch < 0) return 0;
  Eigen::Index side = 1;
  while (side * side < rows - a.leading_rows()) ++side;
  const auto at = static_cast<double>(column ? patch % side : patch / side);
  return (at + 0.5) / static_cast<double>(side) * 2 - 1;
}

void drop(std::int64_t token, const Matrix<double>& input, Matrix<double>& x) {
  Eigen::Index kept = 0;
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    if (static_cast<std::int64_t>(input(t, 0)) == token) {
      x.row(t).setZero();
    } else {
      ++kept;
    }
  }
  x *= static_cast<double>(x.rows()) / static_cast<double>(kept);
}

void add_contacts(const Matrix<double>& tokens, double weight, const Matrix<double>& pattern,
                  Matrix<double>& sum) {
  const Eigen::Index n = pattern.rows();
  Matrix<double> kept = pattern;
  for (Eigen::Index i = 0; i < n; ++i) {
    if (i > 0 && i + 1 < n && tokens(i, 0) != 2) continue;
    kept.row(i).setZero();
    kept.col(i).setZero();
  }
  const Matrix<double> both = kept + kept.transpose();
  sum += weight * (both - both.rowwise().sum() * both.colwise().sum() / both.sum());
}

Matrix<double> contacts(const Matrix<double>& sum, double bias) {
  const Eigen::Index inner = sum.rows() - 2;
  return sum.block(1, 1, inner, inner).unaryExpr([&](double x) {
    return 1 / (1 + std::exp(-x - bias));
  });
}

}  // namespace regauge::testing
