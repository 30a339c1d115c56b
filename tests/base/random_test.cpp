#include "regauge/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace regauge {
namespace {

// Certificates and fixtures are rebuilt from (seed, name): these numbers must never change.
TEST(Random, StreamsArePinned) {
  Random random(42, "layers.0.ffn");
  EXPECT_EQ(random.bits(), 0x3bd0b4d801d7a588ULL);
  EXPECT_EQ(random.bits(), 0x80e3473b1727e146ULL);
  EXPECT_EQ(random.bits(), 0x379788cc5de5d2f0ULL);
  EXPECT_DOUBLE_EQ(random.uniform(), 0.60510542696394842);
  EXPECT_NEAR(random.normal(), 0.92779868526117493, 1e-12);
  EXPECT_EQ(random.below(1000), 497);
  EXPECT_EQ(random.permutation(8), (std::vector<std::int64_t>{4, 1, 0, 6, 7, 2, 5, 3}));
  EXPECT_EQ(Random(0, "").bits(), 0x1e28178eedbf0f30ULL);
}

TEST(Random, SeedAndNameBothMatter) {
  EXPECT_EQ(Random(1, "a").bits(), Random(1, "a").bits());
  EXPECT_NE(Random(1, "a").bits(), Random(2, "a").bits());
  EXPECT_NE(Random(1, "a").bits(), Random(1, "b").bits());
}

TEST(Random, UniformFillsTheUnitInterval) {
  Random random(3, "uniform");
  std::array<int, 16> bins{};
  constexpr int kDraws = 160000;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    ++bins.at(static_cast<std::size_t>(value * 16));
  }
  double chi_squared = 0;
  for (const int count : bins) chi_squared += std::pow(count - 10000.0, 2) / 10000.0;
  EXPECT_LT(chi_squared, 44.3);  // 15 degrees of freedom, p = 1e-4
}

TEST(Random, NormalHasTheMomentsOfANormal) {
  Random random(3, "normal");
  constexpr int kDraws = 200000;
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.01);
  EXPECT_NEAR(squares / kDraws, 1, 0.02);
  EXPECT_NEAR(fourth / kDraws, 3, 0.15);
}

TEST(Random, BelowIsInRangeAndReachesBothEnds) {
  Random random(3, "below");
  std::array<int, 7> counts{};
  for (int i = 0; i < 7000; ++i) ++counts.at(static_cast<std::size_t>(random.below(7)));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(random.below(1), 0);
}

TEST(Random, PermutationIsAPermutation) {
  Random random(3, "permutation");
  EXPECT_TRUE(random.permutation(0).empty());
  const std::vector<std::int64_t> order = random.permutation(1000);
  std::vector<std::int64_t> sorted = order;
  std::ranges::sort(sorted);
  EXPECT_NE(order, sorted);
  for (std::int64_t i = 0; i < 1000; ++i) EXPECT_EQ(sorted[static_cast<std::size_t>(i)], i);
}

// All 6 orders of 3 things are equally frequent.
TEST(Random, PermutationIsUniform) {
  Random random(3, "uniform permutation");
  std::array<int, 27> counts{};
  for (int i = 0; i < 6000; ++i) {
    const auto order = random.permutation(3);
    ++counts.at(static_cast<std::size_t>(order[0] * 9 + order[1] * 3 + order[2]));
  }
  int seen = 0;
  for (const int count : counts) {
    if (count == 0) continue;
    ++seen;
    EXPECT_NEAR(count, 1000, 150);
  }
  EXPECT_EQ(seen, 6);
}

TEST(Random, CoinIsFair) {
  Random random(3, "coin");
  int heads = 0;
  for (int i = 0; i < 10000; ++i) heads += random.coin() ? 1 : 0;
  EXPECT_NEAR(heads, 5000, 250);
}

}  // namespace
}  // namespace regauge
