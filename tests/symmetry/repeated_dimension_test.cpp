#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "architectures.h"
#include "calculus.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge {
namespace {

TEST(Dimension, EqualsTheCalculusWhereLayersAreGoneThroughAgain) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Architecture a = repeated_architecture(seed);
    const CalculusResult result = calculus(a, 1);
    EXPECT_EQ(symmetry_of(a).dimension(), result.dimension) << seed << " " << to_json(a).dump();
    EXPECT_GT(result.gap, 1e5) << seed;
  }
}

// A rule that takes one pass for all of them finds more: wires of their own, and what no norm in
// front of q, k and v reads.
TEST(Dimension, PassesAreSeen) {
  const Architecture a = albert_architecture(6, 3);
  EXPECT_GT(calculus(a, 1, Mistake::passes_forgotten).dimension, symmetry_of(a).dimension());
}

}  // namespace
}  // namespace regauge
