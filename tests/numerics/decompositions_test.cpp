#include "numerics/decompositions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "numerics/random_matrix.h"

namespace regauge {
namespace {

constexpr Eigen::Index kSize = 7;

Matrix<double> identity(Eigen::Index size) { return Matrix<double>::Identity(size, size); }

TEST(Inverse, UndoesTheMatrix) {
  Random random(1, "inverse");
  const Matrix<double> m = random_invertible(kSize, random);
  EXPECT_LT((inverse(m) * m - identity(kSize)).norm(), 1e-12);
  EXPECT_TRUE(is_invertible(m));
  EXPECT_GT(reciprocal_condition(m), 1e-3);
}

TEST(Inverse, OfASingularMatrixIsKnownByItsCondition) {
  Random random(1, "inverse");
  Matrix<double> m = random_invertible(kSize, random);
  m.row(2) = m.row(4);
  EXPECT_FALSE(is_invertible(m));
  EXPECT_LT(reciprocal_condition(m), 1e-14);
  EXPECT_EQ(reciprocal_condition(Matrix<double>::Zero(kSize, kSize)), 0);
}

TEST(Svd, OfATallMatrixAndAWideOne) {
  Random random(1, "svd");
  for (const bool wide : {false, true}) {
    Eigen::MatrixXd m = random_gaussian(kSize, random).leftCols(3);
    if (wide) m.transposeInPlace();
    const auto [u, values, v] = svd(m);
    EXPECT_EQ(values.size(), 3);
    EXPECT_TRUE(values(0) >= values(1) && values(1) >= values(2));
    EXPECT_LT((u * values.asDiagonal() * v.transpose() - m).norm(), 1e-13);
    EXPECT_LT((u.transpose() * u - identity(3)).norm(), 1e-13);
  }
}

TEST(Eigenpairs, DiagonaliseASymmetricMatrix) {
  Random random(1, "eigenpairs");
  const Eigen::MatrixXd half = random_gaussian(kSize, random);
  const Eigen::MatrixXd m = half + half.transpose();
  const auto [values, vectors] = eigenpairs(m);
  EXPECT_LT((vectors * values.asDiagonal() * vectors.transpose() - m).norm(), 1e-12);
  EXPECT_LT((eigenvalues(m) - values).norm(), 1e-12);
  EXPECT_LT(values(0), values(kSize - 1));
}

TEST(LeastSquares, LeaveWhatIsOrthogonal) {
  Random random(1, "solve");
  const Eigen::MatrixXd a = random_gaussian(kSize, random).leftCols(4);
  const Eigen::MatrixXd b = random_gaussian(kSize, random);
  const Eigen::MatrixXd x = least_squares(a, b);
  EXPECT_LT((a.transpose() * (a * x - b)).norm(), 1e-12);
  EXPECT_GT((a * x - b).norm(), 0.1);
  const Eigen::MatrixXd positive = a.transpose() * a;
  EXPECT_LT((solve_positive(positive, a.transpose() * b) - x).norm(), 1e-10 * x.norm());
}

TEST(RowSpace, AndItsComplementAreEverything) {
  Random random(1, "rows");
  Matrix<double> m = random_gaussian(kSize, random).topRows(4);
  m.row(3) = m.row(0) - 2 * m.row(1);
  const Matrix<double> rows = row_space(m, 1e-14), others = complement(rows);
  ASSERT_EQ(rows.rows(), 3);
  ASSERT_EQ(others.rows(), kSize - 3);
  EXPECT_LT((m - m * rows.transpose() * rows).norm(), 1e-12);
  EXPECT_LT((rows * others.transpose()).norm(), 1e-13);
  EXPECT_LT((others * others.transpose() - identity(kSize - 3)).norm(), 1e-13);
}

TEST(MatrixExponential, TurnsAndGrows) {
  Matrix<double> turn(2, 2);
  turn << 0, -0.7, 0.7, 0;
  Matrix<double> expected(2, 2);
  expected << std::cos(0.7), -std::sin(0.7), std::sin(0.7), std::cos(0.7);
  EXPECT_LT((matrix_exponential(turn) - expected).norm(), 1e-14);

  // P diag(z) P^-1, with complex z and P.
  const std::complex<double> i(0, 1);
  Eigen::Matrix2cd p, z, grown, back;
  p << 1.0, 2.0 * i, 0.5, 1.0 - i;
  z << 0.3 + 2.0 * i, 0, 0, -1.0 + 0.1 * i;
  grown << std::exp(z(0, 0)), 0, 0, std::exp(z(1, 1));
  back << p(1, 1), -p(0, 1), -p(1, 0), p(0, 0);
  back /= p(0, 0) * p(1, 1) - p(0, 1) * p(1, 0);
  const Eigen::Matrix2cd found = complex_matrix_exponential(p * z * back);
  EXPECT_LT((found - p * grown * back).norm(), 1e-13);
}

}  // namespace
}  // namespace regauge
