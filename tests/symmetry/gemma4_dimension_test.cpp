#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "against_calculus.h"
#include "architectures.h"
#include "calculus.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge {
namespace {

using testing::expect_the_calculus;

TEST(Dimension, EqualsTheCalculusWithNormsOfValues) {
  int norms = 0, keys = 0, scales = 0, still = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const Architecture a = value_norm_architecture(seed);
    for (const auto& kind : a.kinds) {
      const Attention& attention = kind.attention;
      norms += attention.value_norm ? 1 : 0;
      keys += attention.keys_as_values ? 1 : 0;
      scales += kind.stream_scale ? 1 : 0;
      const auto& frequencies = attention.rotary_frequencies;
      still += !frequencies.empty() && frequencies.back() == 0 ? 1 : 0;
    }
    expect_the_calculus(a, seed);
  }
  EXPECT_GT(std::min({norms, keys, scales, still}), 15);
}

// Per layer Q + m + 2D + 2 as Gemma 3's, with O(d) and a scale for a head's values, or none of
// their own; d_k/2, or with a pair at rest one more, for the gains; and a number.
TEST(Dimension, OfGemma4) {
  const Architecture a = gemma4_architecture();
  const std::int64_t heads = 2 + 1, neurons = 9, norms = 2 * 8 + 2, number = 1;
  const std::int64_t first = (6 + 1) + heads + 2, second = heads + 3;
  EXPECT_EQ(symmetry_of(a).dimension(), first + second + 2 * (neurons + norms + number) + 1);
  expect_the_calculus(a, 1);
  EXPECT_GT(calculus(a, 1, Mistake::value_norm_forgotten).dimension, symmetry_of(a).dimension());
  EXPECT_GT(calculus(a, 1, Mistake::stream_scale_forgotten).dimension, 0);
}

// Norms behind branches pin the stream's axes by their gains only as far as the branches reach:
// where each writes few dimensions, rotations are left (docs/theory.md, "Narrow branches"). The
// final gain pins the axes of a tied head by itself.
std::int64_t turns_left_by_narrow_branches(const Architecture& a) {
  if (a.tied) return 0;
  std::int64_t left = a.width * (a.width - 1) / 2;
  for (std::int64_t n = 0; n < a.layers; ++n) {
    const Layer& layer = a.layer(n);
    for (const std::int64_t writes :
         {layer.attention.heads * layer.attention.v_width, layer.ffn.width, a.table_width}) {
      const std::int64_t rank = std::min(writes, a.width);
      left -= std::max<std::int64_t>(0, rank * (rank + 1) / 2 - a.width);
    }
  }
  return std::max<std::int64_t>(0, left);
}

TEST(Dimension, EqualsTheCalculusWithTablesAndSharedKeys) {
  int tables = 0, shared = 0, vectors = 0, wide = 0, narrow = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Architecture a = table_architecture(seed);
    tables += a.has_tables() ? 1 : 0;
    vectors += a.has_tables() && a.input_width > 0 ? 1 : 0;
    for (const auto& kind : a.kinds) {
      shared += kind.attention.shares_keys ? 1 : 0;
      wide += kind.attention.shares_keys && kind.ffn.width > a.kinds.front().ffn.width ? 1 : 0;
    }
    const std::int64_t turns = turns_left_by_narrow_branches(a);
    narrow += turns > 0 ? 1 : 0;
    expect_the_calculus(a, seed, turns);
  }
  EXPECT_GE(std::min({tables, shared, vectors, wide}), 5);
  EXPECT_EQ(narrow, 2);
}

// One head of 4 in a stream of 8, and as many neurons: 28 - 2 - (m (m + 1)/2 - 8), with eps or
// without; none is left where the other branch is as wide as the stream.
TEST(Dimension, OfNarrowBranches) {
  for (const bool eps : {false, true}) {
    for (const auto& [heads, neurons, left] : std::vector<std::array<std::int64_t, 3>>{
             {1, 3, 26}, {1, 4, 24}, {1, 6, 13}, {1, 8, 0}, {2, 4, 0}}) {
      Architecture a = gemma4_small_architecture(
          {.width = 8, .neurons = neurons, .layers = 1, .heads = heads, .eps = eps});
      a.tied = false;
      EXPECT_EQ(turns_left_by_narrow_branches(a), left);
      expect_the_calculus(a, 1, left);
    }
  }
}

// The gains of the layer's queries, one of each pair, are those of the keys that it takes.
TEST(Dimension, OfLayersThatTakeKeys) {
  const Architecture a =
      gemma4_small_architecture({.layers = 3, .shared = 1, .twice_as_wide = true, .eps = true});
  expect_the_calculus(a, 1);
  EXPECT_EQ(calculus(a, 1, Mistake::shared_keys_apart).dimension,
            symmetry_of(a).dimension() + a.layer(2).attention.qk_width / 2);
}

// Text and vectors; what each of two mistakes allows is more.
TEST(Dimension, OfGemma4WithTablesAndSharedKeys) {
  const Architecture text = gemma4_small_architecture({.table_width = 3, .eps = true});
  EXPECT_EQ(symmetry_of(text).dimension(), 99);
  expect_the_calculus(text, 1);
  const Architecture vectors =
      gemma4_small_architecture({.table_width = 3, .eps = true, .vectors = 7});
  EXPECT_EQ(symmetry_of(vectors).dimension(), 57);
  expect_the_calculus(vectors, 1);
  EXPECT_GT(calculus(vectors, 1, Mistake::vectors_forgotten).dimension, 57);
  EXPECT_GT(calculus(vectors, 1, Mistake::table_gain_apart).dimension, 57);
}

TEST(Dimension, EqualsTheCalculusWithNormsAndFactorsOfExperts) {
  int norms = 0, factors_of_experts = 0, alone = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    const Architecture a = own_norms_architecture(seed);
    for (const auto& kind : a.kinds) {
      const Experts& experts = kind.ffn.experts;
      norms += experts.own_norms ? 1 : 0;
      factors_of_experts += experts.scales ? 1 : 0;
      alone += experts.scales && !experts.own_norms ? 1 : 0;
    }
    expect_the_calculus(a, seed);
  }
  EXPECT_GT(std::min({norms, factors_of_experts, alone}), 20);
}

// As Gemma 4's, with four gains and the column that all logits share, four lengths that norms
// forget, and a factor of each of the three experts.
TEST(Dimension, OfGemma4WithExperts) {
  const Architecture a = gemma4_experts_architecture();
  const std::int64_t heads = 2 + 1, neurons = 3 * 4 + 3 + 5, norms = 5 * 8 + 4, number = 1;
  const std::int64_t first = (6 + 1) + heads + 2, second = heads + 3;
  EXPECT_EQ(symmetry_of(a).dimension(), first + second + 2 * (neurons + norms + number) + 1);
  expect_the_calculus(a, 1);
  EXPECT_EQ(calculus(a, 1, Mistake::router_shift_forgotten).dimension,
            symmetry_of(a).dimension() - 2 * 8);
}

}  // namespace
}  // namespace regauge
