#include "symmetry/procrustes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "numerics/random_matrix.h"

namespace regauge {
namespace {

Matrix<double> gaussian(std::int64_t n, std::uint64_t seed) {
  Random random(seed, "gaussian");
  return random_gaussian(n, random);
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

// Against every exchange of two pairs of one class and a coordinate at rest, each head with the
// half turns that are best for it.
TEST(ExchangeProcrustes, TurnsHeadsByThemselves) {
  const std::vector<double> frequencies = {0.3, 0.3};
  const GainExchange group(5, frequencies);
  const HalfTurns turns(5, frequencies);
  const auto reached = [&](const TurnedExchange& found, const std::vector<Matrix<double>>& crosses,
                           const Matrix<double>& moduli) {
    double sum = moduli.cwiseProduct(found.exchange.cwiseAbs()).sum();
    for (std::size_t i = 0; i < crosses.size(); ++i) {
      sum += crosses[i].cwiseProduct(found.turns[i] * found.exchange).sum();
    }
    return sum;
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<Matrix<double>> crosses = {gaussian(5, 3 * seed), gaussian(5, 3 * seed + 1)};
    const Matrix<double> moduli = gaussian(5, 3 * seed + 2).cwiseAbs();
    const TurnedExchange best = exchange_procrustes(group, turns, crosses, moduli);
    EXPECT_EQ(group.violation(best.exchange), 0);
    for (const auto& own : best.turns) EXPECT_EQ(turns.violation(own), 0);
    Random random(seed, "members");
    double most = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3000; ++i) {
      const Matrix<double> pattern = group.random(random).cwiseSign();
      most = std::max(
          most, reached({pattern, {turns.random(random), turns.random(random)}}, crosses, moduli));
    }
    EXPECT_NEAR(reached(best, crosses, moduli), most, 1e-9) << seed;
  }
}

}  // namespace
}  // namespace regauge
