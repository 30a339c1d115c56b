#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "fixture.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using testing::fixture;
using testing::values;

TEST(Layout, HalfPairsBecomeAdjacentPairs) {
  const Model model = Model::open(fixture("llama"));
  const auto stored =
      values(model.checkpoint, "model.layers.0.self_attn.q_proj.weight");  // [24, 20]
  const Matrix<double> q = model.read<double>("layers.0.attn.q.weight");
  // Head 1 of width 6: canonical coordinates 0..5 are stored at 0, 3, 1, 4, 2, 5.
  const std::vector<std::size_t> at = {0, 3, 1, 4, 2, 5};
  for (int c = 0; c < 6; ++c) {
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(q(i, 6 + c),
                stored[(6 + at[static_cast<std::size_t>(c)]) * 20 + static_cast<std::size_t>(i)]);
    }
  }
}

TEST(Layout, OnlyTheRotaryPartOfAHeadIsPermuted) {
  const Model model = Model::open(fixture("gpt_neox"));  // width 32, 4 heads of 8, 4 of them rotate
  ASSERT_EQ(model.architecture.kinds[0].attention.rotary_dims, 4);
  const auto stored = values(model.checkpoint, "gpt_neox.layers.0.attention.query_key_value.bias");
  const Matrix<double> q = model.read<double>("layers.0.attn.q.bias");
  const Matrix<double> k = model.read<double>("layers.0.attn.k.bias");
  const Matrix<double> v = model.read<double>("layers.0.attn.v.bias");
  const std::vector<std::size_t> at = {0, 2, 1, 3, 4, 5, 6, 7};
  for (std::size_t head = 0; head < 4; ++head) {
    for (std::size_t c = 0; c < 8; ++c) {
      const auto column = static_cast<int>(head * 8 + c);
      EXPECT_EQ(q(0, column), stored[head * 24 + at[c]]);
      EXPECT_EQ(k(0, column), stored[head * 24 + 8 + at[c]]);
      EXPECT_EQ(v(0, column), stored[head * 24 + 16 + c]);
    }
  }
}

TEST(Layout, GemmaStoresGainsLessOne) {
  const Model model = Model::open(fixture("gemma"));
  const auto stored = values(model.checkpoint, "model.norm.weight");
  const Matrix<double> gain = model.read<double>("head.norm.gain");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(gain(0, i), stored[static_cast<std::size_t>(i)] + 1);
  const Model gguf = Model::open(fixture("gemma-gguf"));
  EXPECT_EQ(values(gguf.checkpoint, "output_norm.weight")[0], gain(0, 0));
}

TEST(Layout, Conv1dIsNotTransposed) {
  const Model model = Model::open(fixture("gpt2"));
  const auto stored = values(model.checkpoint, "transformer.h.0.attn.c_attn.weight");  // [20, 60]
  EXPECT_EQ(model.read<double>("layers.0.attn.k.weight")(3, 5), stored[3 * 60 + 20 + 5]);
}

TEST(Layout, PatchesAreRowsOfTheInputMap) {
  const Model model = Model::open(fixture("vit"));
  EXPECT_EQ(model.layout.holder("embed.input.weight").shape,
            (std::vector<std::int64_t>{20, 3, 4, 4}));
  const auto stored = values(model.checkpoint, "vit.embeddings.patch_embeddings.projection.weight");
  EXPECT_EQ(model.read<double>("embed.input.weight")(2 * 16 + 3, 7), stored[7 * 48 + 2 * 16 + 3]);
}

TEST(Layout, RefusesWrongSizes) {
  const Model model = Model::open(fixture("llama"));
  std::vector<double> short_by_one(20 * 24 - 1);
  EXPECT_THROW(
      model.layout.insert<double>("layers.0.attn.q.weight", Matrix<double>::Zero(20, 24),
                                  model.layout.holder("layers.0.attn.q.weight"), short_by_one),
      UsageError);
  std::vector<double> right(20 * 24);
  EXPECT_THROW(model.layout.insert<double>("layers.0.attn.q.weight", Matrix<double>::Zero(24, 20),
                                           model.layout.holder("layers.0.attn.q.weight"), right),
               UsageError);
}

TEST(Layout, SaysWhatAFamilyHasNoPlaceFor) {
  Architecture architecture = Model::open(fixture("gpt2")).architecture;
  architecture.head_bias = true;
  try {
    layout_for("gpt2", Format::safetensors, architecture);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("head.bias"), std::string::npos) << error.what();
  }
  architecture.head_bias = false;
  architecture.kinds[0].attention.biases.k = false;
  EXPECT_THROW(layout_for("gpt2", Format::safetensors, architecture), UsageError);
}

// A layer of 70B size; a naive transpose takes many times as long.
TEST(Layout, LargeMatricesDoNotCrawl) {
  Architecture architecture = Model::open(fixture("llama")).architecture;
  architecture.layers = 1;
  architecture.width = 4096;
  architecture.kinds[0].ffn.width = 14336;
  const Layout layout = layout_for("llama", Format::safetensors, architecture);
  std::vector<float> stored(static_cast<std::size_t>(4096) * 14336);
  std::iota(stored.begin(), stored.end(), 0.0F);
  const auto start = std::chrono::steady_clock::now();
  const Matrix<float> up =
      layout.extract<float>("layers.0.ffn.up.weight", [&](const auto&, std::span<float> values) {
        std::copy(stored.begin(), stored.end(), values.begin());
      });
  std::vector<float> again(stored.size());
  layout.insert<float>("layers.0.ffn.up.weight", up, layout.holder("layers.0.ffn.up.weight"),
                       again);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(stored, again);
  EXPECT_EQ(up(5, 9), stored[9 * 4096 + 5]);
  RecordProperty("seconds", std::to_string(seconds.count()));
}

}  // namespace
}  // namespace regauge
