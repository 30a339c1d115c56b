// What is measured on a pair besides its line.
#include "connect/measure.h"

#include <gtest/gtest.h>

#include "symmetry/architectures.h"

namespace regauge::connect {
namespace {

TEST(Imbalance, IsZeroForBalancedHeadsAndOneWhereASideIsMissing) {
  const Architecture& architecture = known_architecture("llama");
  auto model = cast<float>(random_parameters(architecture, 1));
  model.at("layers.0.attn.k.weight") = model.at("layers.0.attn.q.weight");
  model.at("layers.1.attn.k.weight").setZero();
  model.at("layers.1.attn.v.weight") = 3 * model.at("layers.1.attn.o.weight").transpose();
  const auto found = imbalance(architecture, model);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_NEAR(found.at("layers.0.attn.qk"), 0, 1e-6);
  EXPECT_NEAR(found.at("layers.1.attn.qk"), 1, 1e-6);
  EXPECT_NEAR(found.at("layers.1.attn.vo"), 8.0 / 10, 1e-6);  // Grams of 1 and of 9
}

TEST(Imbalance, CountsAKeyOnceForEachOfItsQueries) {
  const Architecture& architecture = known_architecture("llama, one kv head");
  auto model = cast<float>(random_parameters(architecture, 1));
  auto& q = model.at("layers.0.attn.q.weight");
  const auto width = architecture.kinds[0].attention.qk_width;
  q.leftCols(width) = model.at("layers.0.attn.k.weight");
  q.rightCols(width).setZero();
  EXPECT_NEAR(imbalance(architecture, model).at("layers.0.attn.qk"), 0.5, 1e-6);
}

}  // namespace
}  // namespace regauge::connect
