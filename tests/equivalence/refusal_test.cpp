// What is not the same function is never called so, and the tensor that differs is named.
#include <gtest/gtest.h>

#include <algorithm>

#include "numerics/random_matrix.h"
#include "regauge/action/act.h"
#include "regauge/equivalence/diff.h"
#include "symmetry/architectures.h"
#include "temporary.h"

namespace regauge {
namespace {

using testing::Temporary;

Architecture small_llama() {
  Architecture a = known_architectures().front().architecture;
  a.width = 16;
  a.kinds[0].attention.heads = 4;
  a.kinds[0].attention.kv_heads = 2;
  a.kinds[0].attention.qk_width = a.kinds[0].attention.v_width = 8;
  a.kinds[0].attention.rotary_dims = 8;
  a.kinds[0].attention.rotary_frequencies = rotary_frequencies(8, 100);
  a.kinds[0].ffn.width = 24;
  a.vocabulary = 40;
  a.norm_eps = 1e-6;
  a.kinds[0].attention.scale = 0.35;
  return a;
}

// A model against a changed copy of itself, which was moved by a random element after that.
class Refusal : public ::testing::Test {
 protected:
  Refusal() : shape(small_llama()), original(random_parameters(shape, 1)) {}

  Diff against(Parameters<double> changed, bool moved = true) {
    const Symmetry symmetry = symmetry_of(shape);
    if (moved) act(symmetry, random_element(symmetry, 9), changed);
    return diff(write("a", original), write("b", changed), Progress::silent());
  }

  Model write(const std::string& name, const Parameters<double>& parameters) {
    const auto path = folder / (name + std::to_string(written++));
    write_parameters<double>(path, "regauge", Format::safetensors, shape, parameters, DType::f32);
    return Model::open(path);
  }

  static std::string worst(const Diff& result) {
    return std::max_element(
               result.residuals.begin(), result.residuals.end(),
               [](const TensorResidual& a, const TensorResidual& b) { return a.excess < b.excess; })
        ->tensor;
  }

  Architecture shape;
  Parameters<double> original;
  Temporary folder{"refusal"};
  int written = 0;
};

TEST_F(Refusal, NothingToRefuse) { EXPECT_EQ(against(original).verdict, Verdict::same); }

TEST_F(Refusal, OneTensorPerturbed) {
  for (const auto& spec : parameter_specs(shape)) {
    if (spec.rows == 1) continue;
    auto changed = original;
    Matrix<double>& tensor = changed.at(spec.name);
    Random random(3, spec.name);
    for (auto& entry : tensor.reshaped()) entry *= 1 + 1e-3 * random.normal();
    for (const bool moved : {false, true}) {
      const Diff result = against(changed, moved);
      EXPECT_EQ(result.verdict, Verdict::perturbed) << spec.name;
      EXPECT_EQ(worst(result), spec.name) << (moved ? "moved" : "in place");
    }
  }
}

TEST_F(Refusal, OneWeightPerturbed) {
  auto changed = original;
  Matrix<double>& tensor = changed.at("layers.1.ffn.down.weight");
  tensor(3, 5) += 0.01 * tensor.norm() / std::sqrt(static_cast<double>(tensor.size()));
  const Diff result = against(changed);
  EXPECT_EQ(result.verdict, Verdict::perturbed);
  EXPECT_EQ(worst(result), "layers.1.ffn.down.weight");
}

TEST_F(Refusal, AnotherModel) {
  EXPECT_EQ(against(random_parameters(shape, 2)).verdict, Verdict::different);
}

TEST_F(Refusal, RotaryPairsInTheWrongLayout) {
  auto changed = original;
  for (const char* name : {"layers.0.attn.q.weight", "layers.0.attn.k.weight"}) {
    Matrix<double>& tensor = changed.at(name);
    const Matrix<double> before = tensor;
    const auto half = shape.kinds[0].attention.qk_width / 2;
    for (Eigen::Index i = 0; i < tensor.cols(); ++i) {
      const auto head = i / shape.kinds[0].attention.qk_width * shape.kinds[0].attention.qk_width,
                 at = i % shape.kinds[0].attention.qk_width;
      tensor.col(i) = before.col(head + (at % 2) * half + at / 2);
    }
  }
  EXPECT_NE(against(changed).verdict, Verdict::same);
}

TEST_F(Refusal, GateAndUpSwapped) {
  auto changed = original;
  std::swap(changed.at("layers.1.ffn.gate.weight"), changed.at("layers.1.ffn.up.weight"));
  EXPECT_NE(against(changed).verdict, Verdict::same);
}

TEST_F(Refusal, QueryHeadsAcrossGroups) {
  auto changed = original;
  auto& q = changed.at("layers.0.attn.q.weight");
  auto& o = changed.at("layers.0.attn.o.weight");
  const auto w = shape.kinds[0].attention.qk_width;
  q.middleCols(w, w).swap(q.middleCols(2 * w, w));
  o.middleRows(w, w).swap(o.middleRows(2 * w, w));
  EXPECT_NE(against(changed).verdict, Verdict::same);
}

TEST_F(Refusal, CoordinatesAcrossHeads) {
  auto changed = original;
  auto& v = changed.at("layers.0.attn.v.weight");
  auto& o = changed.at("layers.0.attn.o.weight");
  v.col(0).swap(v.col(shape.kinds[0].attention.v_width));
  o.row(0).swap(o.row(shape.kinds[0].attention.v_width));
  EXPECT_NE(against(changed).verdict, Verdict::same);
}

TEST_F(Refusal, GainsReadAsOffsets) {
  auto changed = original;
  for (auto& [name, value] : changed) {
    if (name.ends_with(".gain")) value.array() -= 1;
  }
  EXPECT_NE(against(changed).verdict, Verdict::same);
}

TEST_F(Refusal, CentringAnRmsModel) {
  auto changed = original;
  auto& tokens = changed.at("embed.tokens");
  tokens.colwise() -= tokens.rowwise().mean().eval();
  EXPECT_NE(against(changed).verdict, Verdict::same);
}

TEST_F(Refusal, ARotationPastTheGains) {
  auto changed = original;
  Random random(2, "control");
  const BlockMap<double> rotation(1, shape.width, {}, random_rotation(shape.width, random));
  for (auto& [name, value] : changed) {
    const bool writes =
        name == "embed.tokens" || name.ends_with("o.weight") || name.ends_with("down.weight");
    if (writes) {
      rotation.apply(value, 1);
    } else if (name.ends_with(".weight")) {
      rotation.apply(value, 0);
    }
  }
  EXPECT_NE(against(changed).verdict, Verdict::same);
}

TEST_F(Refusal, AGeneralMapOnARotaryHead) {
  auto changed = original;
  Random random(2, "control");
  const BlockMap<double> map(shape.kinds[0].attention.kv_heads, shape.kinds[0].attention.qk_width,
                             {},
                             random_invertible(shape.kinds[0].attention.qk_width, random)
                                 .replicate(shape.kinds[0].attention.kv_heads, 1));
  map.lifted(BlockMap<double>(shape.kinds[0].attention.heads, 1))
      .apply(changed.at("layers.0.attn.q.weight"), 1);
  map.dual().apply(changed.at("layers.0.attn.k.weight"), 1);
  EXPECT_NE(against(changed).verdict, Verdict::same);
}

TEST_F(Refusal, TheWrongNumberOfKeyHeads) {
  auto changed = original;
  Matrix<double>& tensor = changed.at("layers.0.attn.k.weight");
  const Matrix<double> before = tensor;
  const auto cols = tensor.cols();
  for (Eigen::Index i = 0; i < cols; ++i) tensor.col(i) = before.col(i % 2 * (cols / 2) + i / 2);
  EXPECT_NE(against(changed).verdict, Verdict::same);
}

TEST_F(Refusal, AnotherRotaryBase) {
  const Model a = write("a", original);
  shape.kinds[0].attention.rotary_frequencies = rotary_frequencies(8, 101);
  const Diff result = diff(a, write("b", original), Progress::silent());
  EXPECT_EQ(result.verdict, Verdict::different);
  ASSERT_EQ(result.reasons.size(), 1U);
  EXPECT_NE(result.reasons.front().find("rotary_frequencies"), std::string::npos);
}

}  // namespace
}  // namespace regauge
