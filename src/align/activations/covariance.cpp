#include "covariance.h"

#include "numerics/dense.h"
#include "regauge/symmetry/block_map.h"

namespace regauge {
namespace {

template <class Sum, class Part>
void add_to(Sum& sum, const Part& part) {
  if (sum.size() == 0) {
    sum = part;
  } else {
    sum += part;
  }
}

}  // namespace

void Covariance::add(const Matrix<float>& a, const Matrix<float>& b) {
  rows_ += static_cast<double>(a.rows());
  add_to(cross_, product_transposed(b, a).cast<double>());
  const auto sums = [](const Matrix<float>& rows) -> Eigen::RowVectorXd {
    return rows.colwise().sum().cast<double>();
  };
  const auto squares = [](const Matrix<float>& rows) -> Eigen::RowVectorXd {
    return rows.colwise().squaredNorm().cast<double>();
  };
  add_to(sum_a_, sums(a));
  add_to(sum_b_, sums(b));
  add_to(squares_a_, squares(a));
  add_to(squares_b_, squares(b));
}

Matrix<double> Covariance::centred() const {
  return cross_ - sum_b_.transpose() * (sum_a_ / rows_);
}

Matrix<double> Covariance::correlation() const {
  const auto inverse_deviation = [&](const Eigen::RowVectorXd& squares,
                                     const Eigen::RowVectorXd& sum) -> Eigen::VectorXd {
    const Eigen::ArrayXd left = (squares.array() - sum.array().square() / rows_).transpose();
    const double smallest = 1e-12 * squares.maxCoeff();
    return (left > smallest).select(left.max(smallest).sqrt().inverse(), 0.0);
  };
  return inverse_deviation(squares_b_, sum_b_).asDiagonal() * centred() *
         inverse_deviation(squares_a_, sum_a_).asDiagonal();
}

}  // namespace regauge
