// Rewritten models are recognised, and what proves it can be checked.
#include <gtest/gtest.h>

#include "arch/fixture.h"
#include "regauge/action/act.h"
#include "regauge/action/rewrite.h"
#include "regauge/base/error.h"
#include "regauge/equivalence/certificate.h"
#include "regauge/equivalence/diff.h"
#include "symmetry/architectures.h"
#include "temporary.h"

namespace regauge {
namespace {

using testing::fixture;
using testing::Temporary;

// Moves a fixture by the random element of a seed.
void rewrite(const Model& model, std::uint64_t seed, const std::filesystem::path& path,
             std::optional<DType> dtype = std::nullopt) {
  const ParameterSource source(model, model.architecture);
  const Symmetry symmetry = symmetry_of(model.architecture);
  const Element element = random_element(symmetry, seed);
  Rewrite::Target target = Rewrite::same_as(model);
  target.dtype = dtype;
  Rewrite(source, symmetry, element, target).run(path, Progress::silent());
}

std::string worst(const Diff& result) {
  std::string text(verdict_name(result.verdict));
  for (const auto& reason : result.reasons) text += "\n" + reason;
  for (const auto& r : result.residuals) {
    if (r.agrees()) continue;
    text += "\n" + r.tensor + " " + std::to_string(r.excess) + " " + r.standing_out + " off " +
            std::to_string(r.residual / r.size) + " rounding " +
            std::to_string(r.rounding / r.size);
  }
  return text;
}

// A moved model with tensors that are not understood (a pooler) is not called the same: they may
// have had to move, too. All that is understood agrees.
Verdict expected_of(const Model& model) {
  return model.unread.empty() ? Verdict::same : Verdict::undecided;
}

class Fixtures : public ::testing::TestWithParam<std::string> {};

TEST_P(Fixtures, AreRecognisedAfterARandomElement) {
  const Model original = Model::open(fixture(GetParam()));
  const Temporary folder("recovery-" + GetParam());
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const auto path = folder / std::to_string(seed);
    rewrite(original, seed, path);
    const Diff result = diff(original, Model::open(path), Progress::silent());
    EXPECT_EQ(result.verdict, expected_of(original)) << "seed " << seed << ": " << worst(result);
    EXPECT_TRUE(all_agree(result.residuals)) << worst(result);
    EXPECT_FALSE(result.a_from_b.is_identity());
  }
}

TEST_P(Fixtures, AreRecognisedInSixteenBits) {
  const Model original = Model::open(fixture(GetParam()));
  const Temporary folder("recovery16-" + GetParam());
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto path = folder / std::string(dtype_name(dtype));
    rewrite(original, 4, path, dtype);
    const Diff result = diff(original, Model::open(path), Progress::silent());
    EXPECT_EQ(result.verdict, expected_of(original)) << dtype_name(dtype) << ": " << worst(result);
    EXPECT_TRUE(all_agree(result.residuals)) << worst(result);
  }
}

TEST_P(Fixtures, HaveACertificateThatHolds) {
  const Model a = Model::open(fixture(GetParam()));
  const Temporary folder("certificate-" + GetParam());
  rewrite(a, 5, folder / "b");
  const Model b = Model::open(folder / "b");
  const Diff result = diff(a, b, Progress::silent());
  ASSERT_EQ(result.verdict, expected_of(a)) << worst(result);
  const auto path = folder / "proof.safetensors";
  save_certificate(symmetry_of(result.architecture),
                   {result.a_from_b, fingerprint(a, Progress::silent()),
                    fingerprint(b, Progress::silent()), result.residuals},
                   path);
  EXPECT_EQ(verify(a, b, path, Progress::silent()).holds(), a.unread.empty());
  EXPECT_FALSE(verify(b, a, path, Progress::silent()).holds());
}

INSTANTIATE_TEST_SUITE_P(Every, Fixtures, ::testing::ValuesIn(testing::fixture_names()),
                         testing::test_name);

TEST(Recovery, OfEveryKnownArchitecture) {
  const Temporary folder("known");
  int number = 0;
  for (const auto& known : known_architectures()) {
    const auto path = folder / std::to_string(number++);
    write_parameters<double>(path, "regauge", Format::safetensors, known.architecture,
                             random_parameters(known.architecture, 7), DType::f32);
    const Model original = Model::open(path);
    const auto moved = folder / (std::to_string(number) + "-moved");
    rewrite(original, 8, moved);
    const Diff result = diff(original, Model::open(moved), Progress::silent());
    EXPECT_EQ(result.verdict, Verdict::same) << known.name << ": " << worst(result);
  }
}

// Streams that rotate, permute or stay as they are, with layer scales behind the branches.
std::map<std::string, Architecture> with_layer_scales() {
  std::map<std::string, Architecture> all;
  for (const char* name : {"llama", "gpt2, untied", "gpt2, tied"}) {
    all[name] = widened(known_architecture(name));
    all[name].kinds[0].layer_scale = true;
  }
  Architecture& vision = all["vision"] = dinov2_architecture(2, 3, true);
  vision.width = 16;
  vision.input_width = 20;
  vision.kinds[0].ffn.width = 24;
  vision.norm_eps = 1e-6;
  return all;
}

// A model, and copies of it that were changed and then moved, as files.
class MovedCopies {
 public:
  explicit MovedCopies(const Architecture& shape)
      : shape_(shape), symmetry_(symmetry_of(shape)), original_(random_parameters(shape, 7)) {}
  const Parameters<double>& original() const { return original_; }

  // What diff says of a changed copy, once it is moved, beside the original.
  Diff against(Parameters<double> changed, std::uint64_t seed, DType dtype) {
    act(symmetry_, random_element(symmetry_, seed), changed);
    return diff(write(original_, DType::f32), write(changed, dtype), Progress::silent());
  }
  void expect_recognised(const std::string& what) {
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        const Diff result = against(original_, seed, dtype);
        EXPECT_EQ(result.verdict, Verdict::same)
            << what << " " << dtype_name(dtype) << " " << seed << ": " << worst(result);
      }
    }
  }

 private:
  Model write(const Parameters<double>& parameters, DType dtype) {
    const auto path = folder_ / std::to_string(number_++);
    write_parameters<double>(path, "regauge", Format::safetensors, shape_, parameters, dtype);
    return Model::open(path);
  }

  const Temporary folder_{"moved-copies"};
  int number_ = 0;
  Architecture shape_;
  Symmetry symmetry_;
  Parameters<double> original_;
};

TEST(Recovery, OfLayerScalesAndRegisters) {
  for (const auto& [name, shape] : with_layer_scales()) {
    MovedCopies copies(shape);
    const auto& original = copies.original();
    copies.expect_recognised(name);
    for (const char* tensor : {"layers.1.attn.layer_scale.gain", "layers.0.ffn.layer_scale.gain",
                               "layers.0.attn.o.weight", "embed.registers"}) {
      if (!original.contains(tensor)) continue;
      auto changed = original;
      changed.at(tensor).col(2) *= 1.01;
      EXPECT_NE(copies.against(changed, 4, DType::f32).verdict, Verdict::same)
          << name << ": " << tensor;
    }
  }
}

TEST(Recovery, OfDeltaNetsAndOutputGates) {
  for (const bool tied : {false, true}) {
    Architecture shape = widened(known_architecture("llama"));
    shape.tied = tied;
    Layer delta = shape.kinds[0];
    set_delta_net(
        delta, {.key_heads = 2, .value_heads = 4, .key_width = 5, .value_width = 3, .kernel = 4});
    shape.kinds[0].attention.gate = true;
    shape.set_layers({delta, shape.kinds[0], delta});
    MovedCopies copies(shape);
    const auto& original = copies.original();
    copies.expect_recognised(tied ? "tied" : "untied");
    for (const char* part : {"q", "k", "v", "z", "a", "b", "q_conv", "k_conv", "v_conv", "o"}) {
      auto changed = original;
      changed.at(std::string("layers.2.delta.") + part + ".weight").row(1) *= 1.05;
      EXPECT_NE(copies.against(changed, 4, DType::f32).verdict, Verdict::same)
          << tied << " " << part;
    }
    for (const char* vector :
         {"layers.0.delta.decay", "layers.2.delta.norm.gain", "layers.0.delta.a.bias"}) {
      auto changed = original;
      changed.at(vector)(0, 1) += 0.05;
      EXPECT_NE(copies.against(changed, 4, DType::f32).verdict, Verdict::same)
          << tied << " " << vector;
    }
    auto changed = original;
    changed.at("layers.1.attn.gate.weight").row(1) *= 1.05;
    EXPECT_NE(copies.against(changed, 4, DType::f32).verdict, Verdict::same) << tied;
  }
}

TEST(Recovery, OfTheSameModelInTwoFormats) {
  for (const char* name : {"llama", "qwen2", "qwen3", "gemma", "gpt2"}) {
    const Model hf = Model::open(fixture(name));
    const Model gguf = Model::open(fixture(std::string(name) + "-gguf"));
    const Diff result = diff(hf, gguf, Progress::silent());
    EXPECT_EQ(result.verdict, Verdict::same) << name << ": " << worst(result);
  }
}

}  // namespace
}  // namespace regauge
