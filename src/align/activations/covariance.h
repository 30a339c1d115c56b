#pragma once

#include "regauge/arch/parameters.h"

namespace regauge {

// Sums over batches of what two taps have in common, columns of B by columns of A.
class Covariance {
 public:
  void add(const Matrix<float>& a, const Matrix<float>& b);

  // sum (y - mean y)^T (x - mean x), x and y the rows of A and B.
  Matrix<double> centred() const;
  // The same divided by both deviations; 0 where a column does not vary.
  Matrix<double> correlation() const;

 private:
  double rows_ = 0;
  Matrix<double> cross_;  // sum y^T x
  Eigen::RowVectorXd sum_a_, sum_b_, squares_a_, squares_b_;
};

}  // namespace regauge
