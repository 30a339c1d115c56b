// Each solver against a plain reference.
#include <Eigen/SVD>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "align/two_stage/rotary_fit.h"
#include "numerics/brent.h"
#include "numerics/nested.h"
#include "numerics/polar.h"
#include "numerics/random_matrix.h"
#include "regauge/base/error.h"
#include "regauge/base/random.h"
#include "symmetry/procrustes.h"

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

// Against the best of many members: none may be better, and it must be one.
TEST(OrthogonalProcrustes, IsTheBestMemberThatKeepsASubspace) {
  for (const Eigen::Index kept : {0, 1, 3}) {
    const Matrix<double> directions = gaussian(8, 3).topRows(kept);
    const Orthogonal group(directions.rows() > 0 ? directions : Matrix<double>(0, 8));
    const Matrix<double> cross = gaussian(8, 4);
    const Matrix<double> best = orthogonal_procrustes(group, cross);
    EXPECT_LE(group.violation(best), 1e-10);
    Random random(5, "members");
    for (int i = 0; i < 2000; ++i) {
      const Matrix<double> other = group.random(random);
      EXPECT_LE(other.cwiseProduct(cross).sum(), best.cwiseProduct(cross).sum() + 1e-9);
    }
    // Stationary: <cross, best X> = 0 for every X of the algebra.
    EXPECT_LE(group.project(best.transpose() * cross).cwiseAbs().maxCoeff(), 1e-9);
  }
}

TEST(OrthogonalProcrustes, RecoversAPlantedMember) {
  const Orthogonal group(Matrix<double>::Ones(1, 30));
  Random random(6, "planted");
  const Matrix<double> planted = group.random(random);
  const Matrix<double> b = Matrix<double>::NullaryExpr(80, 30, [&] { return random.normal(); });
  const Matrix<double> found = orthogonal_procrustes(group, b.transpose() * (b * planted));
  EXPECT_LE((found - planted).cwiseAbs().maxCoeff(), 1e-10);
}

TEST(SignedPermutationProcrustes, IsThatOfBruteForce) {
  for (const bool signs : {false, true}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const Matrix<double> cross = gaussian(6, seed);
      std::vector<std::int64_t> order(6);
      std::iota(order.begin(), order.end(), 0);
      double best = -std::numeric_limits<double>::infinity();
      do {
        double value = 0;
        for (Eigen::Index i = 0; i < 6; ++i) {
          const double entry = cross(i, order[static_cast<std::size_t>(i)]);
          value += signs ? std::abs(entry) : entry;
        }
        best = std::max(best, value);
      } while (std::next_permutation(order.begin(), order.end()));
      const auto found = signed_permutation_procrustes(cross, signs);
      EXPECT_NEAR(found.dense().cwiseProduct(cross).sum(), best, 1e-5);
    }
  }
}

TEST(NestedAssignment, IsThatOfBruteForce) {
  constexpr Eigen::Index kGroups = 3, kSize = 2;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Matrix<double> members = gaussian(kGroups * kSize, seed);
    const Matrix<double> groups = gaussian(kGroups, seed + 100);
    double best = -std::numeric_limits<double>::infinity();
    std::vector<std::int64_t> outer(kGroups);
    std::iota(outer.begin(), outer.end(), 0);
    do {
      for (int flips = 0; flips < 1 << kGroups; ++flips) {
        double value = 0;
        for (Eigen::Index i = 0; i < kGroups; ++i) {
          const auto j = outer[static_cast<std::size_t>(i)];
          value += groups(i, j);
          const bool flip = ((flips >> i) & 1) != 0;
          for (Eigen::Index s = 0; s < kSize; ++s) {
            value += members(i * kSize + s, j * kSize + (flip ? 1 - s : s));
          }
        }
        best = std::max(best, value);
      }
    } while (std::next_permutation(outer.begin(), outer.end()));
    const auto found = assign_nested(members, groups);
    EXPECT_NEAR(found.value, best, 1e-5);
    for (std::size_t i = 0; i < found.target.size(); i += 2) {
      EXPECT_EQ(found.target[i] / kSize, found.target[i + 1] / kSize);
    }
  }
  EXPECT_THROW(assign_nested(gaussian(5, 1), gaussian(2, 1)), UsageError);
}

// A permutation of S_2 wr S_2 wr S_3 that is worth more than all others is found, and a better one
// across bundles is not taken.
TEST(Nested, KeepsBundlesTogether) {
  const std::vector<std::int64_t> wanted = {6, 7, 5, 4, 8, 9, 10, 11, 3, 2, 0, 1};
  Matrix<double> members = Matrix<double>::Zero(12, 12);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    members(static_cast<Eigen::Index>(i), wanted[i]) = 1;
  }
  members(0, 11) = members(1, 10) = 3;  // another group for one of a bundle, but not for the other
  EXPECT_EQ(assign_nested(members, Matrix<double>::Zero(6, 6), 3).target, wanted);
  EXPECT_NE(assign_nested(members, Matrix<double>::Zero(6, 6)).target, wanted);
  EXPECT_THROW(assign_nested(members, Matrix<double>::Zero(6, 6), 4), UsageError);
}

// The reference: a fine grid over log r, and golden sections around its best points.
double thorough_minimum(const RotaryPair& pair) {
  double best = std::numeric_limits<double>::infinity();
  constexpr int kGrid = 400;
  const auto f = [&](double x) { return rotary_objective(pair, std::exp(x)); };
  const double middle = pair.a > 0 && pair.b > 0 ? std::log(pair.b / pair.a) / 4 : 0;
  for (int i = 1; i < kGrid; ++i) {
    const double step = 20.0 / kGrid, x = middle - 10 + step * i;
    if (f(x) > f(x - step) || f(x) > f(x + step)) continue;
    double low = x - step, high = x + step;
    for (int k = 0; k < 80; ++k) {
      const double left = low + 0.381966 * (high - low), right = high - 0.381966 * (high - low);
      (f(left) < f(right) ? high : low) = f(left) < f(right) ? right : left;
    }
    best = std::min(best, f((low + high) / 2));
  }
  return best;
}

RotaryPair random_pair(Random& random) {
  const auto complex = [&](double size) {
    return std::complex<double>(size * random.normal(), size * random.normal());
  };
  const double spread = std::exp2(4 * random.uniform() - 2);
  RotaryPair pair;
  pair.a = std::exp(random.normal());
  pair.b = std::exp(random.normal());
  pair.s = complex(spread * pair.a);
  switch (random.below(3)) {
    case 0:  // unrelated
      pair.t = complex(spread * pair.b);
      break;
    case 1:  // opposite phases: two minima, one on either side
      pair.t = -pair.s * std::exp(random.normal()) + complex(0.01);
      break;
    default:  // kin
      pair.t = pair.s * std::exp(0.1 * random.normal()) + complex(0.05);
      break;
  }
  return pair;
}

TEST(RotaryFit, IsNeverWorseThanASearch) {
  Random random(7, "pairs");
  std::vector<RotaryPair> pairs;
  for (int i = 0; i < 4000; ++i) pairs.push_back(random_pair(random));
  std::vector<std::complex<double>> fits(pairs.size());
  fit_rotary_pairs(pairs, fits);
  int two_minima = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const double found = rotary_objective(pairs[i], std::abs(fits[i]));
    const double best = thorough_minimum(pairs[i]);
    EXPECT_LE(found, best + 1e-9 * (pairs[i].a + pairs[i].b + std::abs(best))) << i;
    // How often the objective has a second minimum, so that a local search may fail.
    const double scale = std::pow(pairs[i].b / pairs[i].a, 0.25);
    int minima = 0;
    for (int k = -60; k <= 60; ++k) {
      const auto f = [&](int at) {
        return rotary_objective(pairs[i], scale * std::exp(0.05 * at));
      };
      minima += f(k) < f(k - 1) && f(k) < f(k + 1) ? 1 : 0;
    }
    two_minima += minima > 1 ? 1 : 0;
  }
  EXPECT_GT(two_minima, 400);
}

// As two_stage searches; where there are two minima it may end in the wrong one.
TEST(RotaryFit, IsNeverWorseThanBrentsMethod) {
  Random random(9, "brent");
  std::vector<RotaryPair> pairs(100'000);
  for (auto& pair : pairs) pair = random_pair(random);
  std::vector<std::complex<double>> fits(pairs.size());
  fit_rotary_pairs(pairs, fits);
  int worse = 0, better = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& pair = pairs[i];
    const double log_radius =
        brent_minimum([&](double r) { return rotary_objective(pair, std::exp(r)); }, -3, 3);
    const double by_search = rotary_objective(pair, std::exp(log_radius));
    const double found = rotary_objective(pair, std::abs(fits[i]));
    const double size = pair.a + pair.b + std::abs(by_search);
    worse += found > by_search + 1e-12 * size ? 1 : 0;
    better += found < by_search - 1e-6 * size ? 1 : 0;
  }
  EXPECT_EQ(worse, 0);
  EXPECT_GT(better, 100);
  std::printf("of %zu pairs better than Brent's method: %d\n", pairs.size(), better);
}

TEST(RotaryFit, RecoversAPlantedNumber) {
  Random random(8, "planted");
  const std::complex<double> z(-0.7, 1.3);
  RotaryPair pair;
  for (int i = 0; i < 20; ++i) {
    const std::complex<double> q(random.normal(), random.normal()),
        k(random.normal(), random.normal());
    pair.a += std::norm(q);
    pair.b += std::norm(k);
    pair.s += z * q * std::conj(q);
    pair.t += k / std::conj(z) * std::conj(k);
  }
  std::complex<double> fit;
  fit_rotary_pairs({&pair, 1}, {&fit, 1});
  EXPECT_NEAR(std::abs(fit - z), 0, 1e-7);
}

TEST(RotaryFit, OfNothingIsOne) {
  const std::vector<RotaryPair> pairs(3);
  std::vector<std::complex<double>> fits(3);
  fit_rotary_pairs(pairs, fits);
  for (const auto& fit : fits) EXPECT_EQ(fit, 1.0);
}

}  // namespace
}  // namespace regauge
