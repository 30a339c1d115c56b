#include "numerics/nested.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "numerics/random_matrix.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

Matrix<double> similarities(std::int64_t n, std::uint64_t seed) {
  Random random(seed, "gaussian");
  return random_gaussian(n, random);
}

TEST(NestedAssignment, IsThatOfBruteForce) {
  constexpr Eigen::Index kGroups = 3, kMembers = 2;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Matrix<double> members = similarities(kGroups * kMembers, seed);
    const Matrix<double> groups = similarities(kGroups, seed + 100);
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
          for (Eigen::Index s = 0; s < kMembers; ++s) {
            value += members(i * kMembers + s, j * kMembers + (flip ? 1 - s : s));
          }
        }
        best = std::max(best, value);
      }
    } while (std::next_permutation(outer.begin(), outer.end()));
    const auto found = assign_nested(members, groups);
    EXPECT_NEAR(found.value, best, 1e-5);
    for (std::size_t i = 0; i < found.target.size(); i += 2) {
      EXPECT_EQ(found.target[i] / kMembers, found.target[i + 1] / kMembers);
    }
  }
  EXPECT_THROW(assign_nested(similarities(5, 1), similarities(2, 1)), UsageError);
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

}  // namespace
}  // namespace regauge
