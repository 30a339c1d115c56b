// What encoders of pictures, proteins and texts have: an element keeps the function, and a part of
// one does not.
#include <gtest/gtest.h>

#include "function.h"
#include "regauge/action/act.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

using testing::change;

Parameters<double> moved_by(const Symmetry& symmetry, const Element& element,
                            Parameters<double> parameters) {
  act(symmetry, element, parameters);
  return parameters;
}

// The element of one shift alone, or of one space; of those of heads with the spaces that follow.
Element only(const Symmetry& symmetry, const std::string& name) {
  const Element drawn = random_element(symmetry, 5);
  Element one;
  if (symmetry.find_shift(name) != nullptr) {
    one.shifts[name] = drawn.shifts.at(name);
    return one;
  }
  const std::string leader = symmetry.find_space(name)->follows;
  for (const auto& space : symmetry.spaces) {
    const bool together = !leader.empty() && (space.name == leader || space.follows == leader);
    if (together || space.name == name) one.maps[space.name] = drawn.maps.at(space.name);
  }
  return one;
}

void expect_each_part_counts(const Architecture& a, const std::string& name,
                             const std::vector<std::string>& tensors) {
  const Symmetry symmetry = symmetry_of(a);
  const auto parameters = random_parameters(a, 1);
  const auto moved = moved_by(symmetry, only(symmetry, name), parameters);
  EXPECT_LE(change(a, parameters, moved), 1e-9) << name;
  for (const std::string& tensor : tensors) {
    EXPECT_NE(moved.at(tensor), parameters.at(tensor)) << tensor;
    auto part = moved;
    part.at(tensor) = parameters.at(tensor);
    EXPECT_GT(change(a, parameters, part), 1e-3) << name << " without " << tensor;
  }
}

TEST(NegativeControls, TurnsByPlacesAllowNoOtherBasis) {
  const Architecture a = dinov3_architecture(false);
  Architecture still = a;
  still.kinds[0].attention.positions = Positions::none;
  still.kinds[0].attention.grid = false;
  still.kinds[0].attention.rotary_dims = 0;
  still.kinds[0].attention.rotary_frequencies.clear();
  const auto parameters = random_parameters(a, 1);
  const std::string qk = "layers.0.attn.qk";
  expect_each_part_counts(a, qk, {"layers.0.attn.q.weight", "layers.0.attn.k.weight"});
  const Symmetry symmetry = symmetry_of(still);
  const auto moved = moved_by(symmetry, only(symmetry, qk), parameters);
  EXPECT_LE(change(still, parameters, moved), 1e-9);
  EXPECT_GT(change(a, parameters, moved), 1e-3);
}

TEST(NegativeControls, ATableOfPlacesHasTwoConstants) {
  const Architecture a = beit_architecture(2, true, true);
  const auto parameters = random_parameters(a, 1);
  const std::string table = "layers.0.attn.relative_bias";
  const Symmetry symmetry = symmetry_of(a);
  for (const char* constant : {".constant", ".class_token.constant"}) {
    const auto moved = moved_by(symmetry, only(symmetry, table + constant), parameters);
    EXPECT_LE(change(a, parameters, moved), 1e-9) << constant;
    for (Eigen::Index row = 0; row < moved.at(table).rows(); ++row) {
      if (moved.at(table).row(row) == parameters.at(table).row(row)) continue;
      auto part = moved;
      part.at(table).row(row) = parameters.at(table).row(row);
      EXPECT_GT(change(a, parameters, part), 1e-4) << constant << " without row " << row;
    }
  }
}

TEST(NegativeControls, ADistillationTokenHasAPosition) {
  const Architecture a = deit_architecture(true);
  expect_each_part_counts(a, "embed.exchange.distillation_token",
                          {"embed.distillation_token", "embed.positions"});
  expect_each_part_counts(a, "residual", {"embed.distillation_token", "head.distillation.weight"});
  expect_each_part_counts(a, "head.norm", {"head.distillation.weight", "head.norm.bias"});
}

TEST(NegativeControls, ContactsMoveWithTheHeads) {
  const Architecture a = esm_architecture(true, true);
  Element exchange;  // of the two heads of the first layer
  exchange.maps["layers.0.attn.heads"] = BlockMap<double>(2, 1, {1, 0}, {});
  const Symmetry symmetry = symmetry_of(a);
  const auto parameters = random_parameters(a, 1);
  const auto moved = moved_by(symmetry, exchange, parameters);
  EXPECT_LE(change(a, parameters, moved), 1e-9);
  auto part = moved;
  part.at("layers.0.attn.contacts") = parameters.at("layers.0.attn.contacts");
  EXPECT_GT(change(a, parameters, part), 1e-3);
}

TEST(NegativeControls, ADroppedTokenIsReadByATiedHeadAlone) {
  for (const bool tied : {true, false}) {
    const Architecture a = esm_architecture(tied, false);
    const auto parameters = random_parameters(a, 1);
    auto other = parameters;
    other.at("embed.tokens").row(a.dropped_token).setConstant(3);
    if (tied) {
      EXPECT_GT(change(a, parameters, other), 1e-3);
    } else {
      EXPECT_LE(change(a, parameters, other), 1e-12);
    }
    other = parameters;
    other.at("embed.tokens").row(a.dropped_token + 1).setConstant(3);
    EXPECT_GT(change(a, parameters, other), 1e-3);
  }
}

TEST(NegativeControls, ABareAttentionReadsWhatTheEmbeddingNormWrites) {
  Architecture a = modernbert_architecture(40, 2, true);
  a.norm_bias = true;
  for (auto& kind : a.kinds) {
    kind.attention.biases = {.q = true, .k = true, .v = true, .o = true};
  }
  expect_each_part_counts(a, "embed.norm.shift", {"embed.norm.bias", "layers.0.attn.o.bias"});
  Architecture apart = a;  // as if that attention had a norm of its own
  apart.bare_first_attention = false;
  const auto with_norm = random_parameters(apart, 1);
  auto parameters = with_norm;
  std::erase_if(parameters,
                [](const auto& entry) { return entry.first.starts_with("layers.0.attn.norm."); });
  const Symmetry symmetry = symmetry_of(apart);
  auto moved = moved_by(symmetry, only(symmetry, "embed.norm.bias.mean"), with_norm);
  EXPECT_LE(change(apart, with_norm, moved), 1e-9);
  std::erase_if(moved,
                [](const auto& entry) { return entry.first.starts_with("layers.0.attn.norm."); });
  EXPECT_GT(change(a, parameters, moved), 1e-4);
}

}  // namespace
}  // namespace regauge
