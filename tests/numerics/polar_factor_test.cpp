#include <Eigen/SVD>
#include <gtest/gtest.h>

#include <limits>

#include "numerics/polar.h"
#include "numerics/random_matrix.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

Matrix<double> gaussian(std::int64_t n, std::uint64_t seed) {
  Random random(seed, "gaussian");
  return random_gaussian(n, random);
}

double orthogonality(const Matrix<double>& m) {
  return (m.transpose() * m - Matrix<double>::Identity(m.rows(), m.cols())).cwiseAbs().maxCoeff();
}

TEST(PolarFactor, IsThatOfTheSingularValues) {
  for (const std::int64_t n : {1, 2, 5, 40, 130}) {
    Matrix<double> cross = gaussian(n, 1);
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(cross, Eigen::ComputeFullU | Eigen::ComputeFullV);
    const Matrix<double> expected = svd.matrixU() * svd.matrixV().transpose();
    const double condition = svd.singularValues()(0) / svd.singularValues()(n - 1);
    const Matrix<double> found = polar_factor(cross);
    EXPECT_LE((found - expected).cwiseAbs().maxCoeff(), 1e-14 * condition * condition) << n;
    EXPECT_LE(orthogonality(found), 1e-12) << n;
    EXPECT_NEAR(nuclear_norm(cross), svd.singularValues().sum(), 1e-9 * static_cast<double>(n));
  }
}

TEST(PolarFactor, OfASingularMatrixReachesTheNuclearNorm) {
  for (const Eigen::Index rank : {0, 1, 7}) {
    Matrix<double> cross = gaussian(12, 2);
    cross.bottomRows(12 - rank).setZero();
    const Matrix<double> found = polar_factor(cross);
    EXPECT_LE(orthogonality(found), 1e-12);
    EXPECT_NEAR(found.cwiseProduct(cross).sum(), nuclear_norm(cross), 1e-6);
  }
}

TEST(PolarFactor, RefusesWhatIsNoSquareOfNumbers) {
  EXPECT_THROW(polar_factor(Matrix<double>::Zero(2, 3)), UsageError);
  EXPECT_THROW(
      polar_factor(Matrix<double>::Constant(2, 2, std::numeric_limits<double>::quiet_NaN())),
      UsageError);
}

}  // namespace
}  // namespace regauge
