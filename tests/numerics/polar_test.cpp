#include "numerics/polar.h"

#include <gtest/gtest.h>

#include <cmath>

#include "numerics/random_matrix.h"

namespace regauge {
namespace {

// U diag V^T with singular values from 1 down to `least`.
struct Example {
  Example(std::int64_t size, double least) {
    Random random(1, "orthogonal factor");
    const Matrix<double> u = random_rotation(size, random), v = random_rotation(size, random);
    Eigen::VectorXd values(size);
    for (Eigen::Index i = 0; i < size; ++i) {
      values(i) = std::pow(least, static_cast<double>(i) / static_cast<double>(size - 1));
    }
    matrix = 7 * u * values.asDiagonal() * v.transpose();
    factor = u * v.transpose();
  }
  Matrix<double> matrix, factor;
};

TEST(OrthogonalFactor, IsTheNearestOne) {
  for (const std::int64_t size : {40, 300}) {
    for (const double least : {1.0, 0.3, 0.01, 1e-5}) {
      for (const bool coarse : {false, true}) {
        const Example example(size, least);
        Matrix<double> found = example.matrix;
        const double condition = make_orthogonal(found, coarse);
        // By products alone the bound is sharper than what an inverse's norms give.
        const bool by_products = size > 256 && least > 0.1;
        EXPECT_GT(condition, by_products ? 0.02 : 0) << size << " " << least;
        EXPECT_LT(condition, 1.5 * least) << size << " " << least;
        const double tolerance = coarse && size > 256 ? 1e-5 / least : 1e-9 / least;
        EXPECT_LT((found - example.factor).norm() / std::sqrt(static_cast<double>(size)), tolerance)
            << size << " " << least;
        EXPECT_LT((found.transpose() * found - Matrix<double>::Identity(size, size)).norm(), 1e-9);
      }
    }
  }
}

TEST(OrthogonalFactor, OfASingularMatrixIsNotGiven) {
  Matrix<double> matrix = Matrix<double>::Random(300, 300);
  matrix.row(7) = matrix.row(8);
  EXPECT_LT(make_orthogonal(matrix, false), 1e-9);
}

}  // namespace
}  // namespace regauge
