// The second judge: the group is complete where its dimension is the nullity of the Jacobian.
#include "regauge/lab/nullity.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lab/complete.h"
#include "regauge/symmetry/symmetry.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

using testing::expect_complete;
using testing::measure;

class KnownNullity : public ::testing::TestWithParam<int> {};

TEST_P(KnownNullity, IsTheDimensionOfTheGroup) {
  const auto& known = known_architectures()[static_cast<std::size_t>(GetParam())];
  EXPECT_EQ(symmetry_of(known.architecture).dimension(), known.nullity);
  expect_complete(known.architecture, known.nullity);
}

INSTANTIATE_TEST_SUITE_P(Theory, KnownNullity, ::testing::Range(0, 31));

// A post-norm block whose feed-forward does not notice the length that the norm before it sets.
bool is_homogeneous_post_norm(const Architecture& a) {
  return a.kinds[0].placement == Placement::post && a.kinds[0].ffn.activation == Activation::relu &&
         !a.kinds[0].ffn.gated && !a.kinds[0].ffn.biases.up && !a.kinds[0].ffn.biases.down &&
         !a.norm_bias;
}

// random_architecture, where the group is known to be whole and the function is not degenerate: a
// parallel block needs many more tokens than units; a class token must be what the class is read
// from, by a second layer that asks it more than one question (docs/findings.md).
Architecture generic_architecture(std::uint64_t seed) {
  Architecture a = random_architecture(seed);
  if (a.kinds[0].parallel && a.input == Input::tokens) {
    a.vocabulary = std::max(a.vocabulary, std::int64_t{50});
  }
  if (is_homogeneous_post_norm(a)) a.kinds[0].ffn.activation = Activation::gelu;
  if (a.class_token) {
    a.causal = a.causal && a.output != Output::classes;
    a.layers = std::max(a.layers, std::int64_t{2});
    a.kinds[0].attention.v_width = std::max(a.kinds[0].attention.v_width, std::int64_t{3});
  }
  return a;
}

class RandomNullity : public ::testing::TestWithParam<int> {};

TEST_P(RandomNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = generic_architecture(static_cast<std::uint64_t>(GetParam()));
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(Architectures, RandomNullity, ::testing::Range(0, 24));

// Layers with and without rotations, of other heads and widths.
Architecture layers_with_and_without_positions(int index) {
  Architecture a = known_architecture(index % 2 == 0 ? "llama" : "layer norm, gelu, rotary");
  Layer still = a.kinds[0];
  still.attention.positions = Positions::none;
  still.attention.rotary_dims = 0;
  still.attention.rotary_frequencies.clear();
  Layer narrow = a.kinds[0];
  narrow.attention.kv_heads = 1;
  narrow.ffn.width = 5;
  narrow.attention.biases.k = true;
  a.vocabulary = 40;
  a.tied = index >= 4;
  switch (index / 2 % 2) {
    case 0:
      a.set_layers({a.kinds[0], still});
      break;
    default:
      a.set_layers({still, narrow});
      break;
  }
  return a;
}

// Norms on what the branches write: before it, too, or nowhere else; tied and not.
Architecture branches_normed(int index) {
  Architecture a = known_architecture(index % 2 == 0 ? "llama" : "llama, qk norm");
  a.vocabulary = 40;
  a.kinds[0].placement = index / 2 % 2 == 0 ? Placement::both : Placement::behind;
  a.tied = index >= 4;
  return a;
}

// T5 and UMT5, gated and not, tied and not; BART, Marian, mBART, Pegasus; and some drawn at random.
Architecture two_stacks(int index) {
  switch (index) {
    case 0:
      return t5_architecture({14, 6, 2, 1, 2, 5}, true, false);
    case 1:
      return t5_architecture({16, 6, 1, 2, 3, 5}, true, true);
    case 2:
      return t5_architecture({14, 4, 2, 1, 2, 4}, false, true);
    case 3:
      return t5_architecture({14, 4, 1, 2, 2, 4}, true, false, true);
    case 4:
      return bart_architecture({14, 6, 1, 1, 2, 5}, PositionTable::learned, Placement::post, true);
    case 5:
      return bart_architecture({14, 6, 2, 1, 2, 5}, PositionTable::sinusoidal, Placement::post,
                               false);
    case 6:
      return bart_architecture({14, 6, 1, 2, 2, 5}, PositionTable::learned, Placement::pre, true);
    case 7:
      return bart_architecture({14, 6, 1, 1, 3, 5}, PositionTable::sinusoidal, Placement::pre,
                               false);
    case 8: {
      Architecture marian = two_stacks(5);
      marian.encoder_vocabulary = 11;
      return marian;
    }
    case 9:
      return encoder_decoder(4);
    default:
      return two_streams(static_cast<std::uint64_t>(index));
  }
}

class TwoStacksNullity : public ::testing::TestWithParam<int> {};

TEST_P(TwoStacksNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = two_stacks(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(EncoderDecoders, TwoStacksNullity, ::testing::Range(0, 16));

class OutputNormNullity : public ::testing::TestWithParam<int> {};

TEST_P(OutputNormNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = branches_normed(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(NormsBehind, OutputNormNullity, ::testing::Range(0, 6));

// One norm for two branches, QK-norms of all heads together, caps and multipliers.
Architecture with_constants(int index) {
  Architecture a =
      known_architecture(index % 2 == 0 ? "llama, no positions" : "layer norm, gelu, rotary");
  Layer& layer = a.kinds[0];
  a.vocabulary = 60;
  a.layers = 1;
  a.logit_scale = 0.5;
  layer.branch_scale = 0.6;
  layer.parallel = layer.shared_norm = index < 4;
  layer.attention.biases = {.q = true, .k = true, .v = true, .o = index == 3};
  layer.ffn.biases.down = true;
  if (index / 2 % 2 == 1) layer.attention.softcap = 1.5;
  if (index >= 2) {
    layer.attention.qk_norm = QkNorm::joint;
    layer.attention.heads = layer.attention.kv_heads = layer.attention.qk_width = 2;
    layer.attention.rotary_dims = std::min<std::int64_t>(2, layer.attention.rotary_dims);
    layer.attention.rotary_frequencies.resize(
        static_cast<std::size_t>(layer.attention.rotary_dims / 2));
  }
  if (index >= 4) layer.attention.biases = {};
  a.log_probabilities = true;
  if (index % 2 == 1) a.logit_softcap = 2;
  return a;
}

class ConstantsNullity : public ::testing::TestWithParam<int> {};

TEST_P(ConstantsNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = with_constants(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(CapsAndSharedNorms, ConstantsNullity, ::testing::Range(0, 6));

// All experts weigh in, or two of three; renormalised or not; one more for all tokens.
Architecture with_experts(int index) {
  Architecture a = known_architecture(index % 2 == 0 ? "llama" : "llama, qk norm");
  a.vocabulary = 60;
  a.layers = 1;
  FeedForward& ffn = a.kinds[0].ffn;
  ffn.width = 3;
  ffn.experts = {.count = 3, .active = 2, .renormalised = index / 2 % 2 == 1};
  if (index >= 4) {
    ffn.experts.shared_width = 2;
    ffn.experts.shared_gate = index % 2 == 1;
  }
  return a;
}

class ExpertsNullity : public ::testing::TestWithParam<int> {};

TEST_P(ExpertsNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = with_experts(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(Experts, ExpertsNullity, ::testing::Range(0, 6));

// A pooler that is an output, or that classes read; several outputs of which each counts.
Architecture with_outputs(int index) {
  Architecture a = known_architecture("bert");
  a.vocabulary = 30;
  a.layers = index < 3 ? 1 : 2;
  a.pooler = true;
  switch (index) {
    case 0:  // a tanh that two classes read, beside the words
      a.output.add(Output::classes);
      a.classes = 2;
      a.classes_pooled = true;
      break;
    case 1:  // words and the pooler itself
      a.output.add(Output::pooled);
      break;
    case 2:  // classes of every position behind a ReLU
      a.output = Output::classes;
      a.classes = 3;
      a.classes_pooled = a.classes_everywhere = true;
      a.pooler_activation = Activation::relu;
      break;
    default:  // hidden states, the pooler and classes beside it
      a.output = Output::hidden;
      a.output.add(Output::pooled);
      a.output.add(Output::classes);
      a.classes = 2;
      a.classes_everywhere = true;
      break;
  }
  return a;
}

class OutputsNullity : public ::testing::TestWithParam<int> {};

TEST_P(OutputsNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = with_outputs(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(Outputs, OutputsNullity, ::testing::Range(0, 4));

// Sigmoid scores; a bias that only selects; experts in groups of which some are chosen.
Architecture with_routers(int index) {
  Architecture a = known_architecture(index % 2 == 0 ? "llama" : "llama, qk norm");
  a.vocabulary = 60;
  a.layers = 1;
  FeedForward& ffn = a.kinds[0].ffn;
  ffn.width = 2;
  ffn.experts = {.count = 4, .active = 2, .renormalised = index / 2 % 2 == 1};
  ffn.experts.scoring = index == 5 ? Scoring::softmax : Scoring::sigmoid;
  ffn.experts.weight_scale = 1.5;
  ffn.experts.selection_bias = index >= 2;
  if (index >= 4) {
    ffn.experts.groups = 2;
    ffn.experts.group_leaders = 2;
    ffn.experts.active = 1;
    ffn.experts.renormalised = false;
  }
  return a;
}

class RouterNullity : public ::testing::TestWithParam<int> {};

// A bias that only selects has no derivative: the Jacobian has all of it, the group one number.
TEST_P(RouterNullity, IsTheDimensionOfTheGroupButForWhatOnlySelects) {
  const Architecture a = with_routers(GetParam());
  const Experts& e = a.kinds[0].ffn.experts;
  expect_complete(a, symmetry_of(a).dimension() + (e.selection_bias ? e.count - 1 : 0));
}

INSTANTIATE_TEST_SUITE_P(Routers, RouterNullity, ::testing::Range(0, 6));

// Latents of keys and values, of queries, too, or with eps; few tokens, whose quadrics count.
Architecture with_latents(int index) {
  Architecture a = known_architecture(index % 2 == 0 ? "llama" : "llama, tied");
  a.vocabulary = index == 4 ? 12 : 40;
  a.layers = 1;
  a.width = 6;
  a.kinds[0].ffn.width = 3;
  Attention& attention = a.kinds[0].attention;
  attention.heads = attention.kv_heads = 2;
  attention.qk_width = 4;
  attention.v_width = 2;
  attention.rotary_dims = 2;
  attention.rotary_frequencies = {0.7};
  attention.kv_latent = index == 4 ? 5 : 4;
  if (index >= 2) attention.q_latent = 5;
  if (index == 5) a.norm_eps = 0.01;
  return a;
}

class LatentNullity : public ::testing::TestWithParam<int> {};

TEST_P(LatentNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = with_latents(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(Latents, LatentNullity, ::testing::Range(0, 6));

// As in gpt-oss, whole and in parts.
Architecture with_sinks(int index) {
  Architecture a = known_architecture("llama");
  a.vocabulary = 60;
  a.layers = 1;
  Layer& layer = a.kinds[0];
  layer.attention.biases = {.q = true, .k = true, .v = true, .o = true};
  layer.attention.sinks = index != 1;
  if (index == 3) layer.attention.positions = Positions::none;
  if (index == 3) layer.attention.rotary_dims = 0, layer.attention.rotary_frequencies.clear();
  layer.ffn.width = 3;
  layer.ffn.activation = Activation::gelu_quick;
  if (index != 2) layer.ffn.limit = 0.7;
  if (index % 2 == 0 && index != 2) layer.ffn.up_offset = 1;
  if (index == 5) return a;
  layer.ffn.experts = {.count = 3, .active = 2, .renormalised = index != 4, .router_bias = true};
  layer.ffn.biases = {.gate = true, .up = true, .down = true};
  return a;
}

class SinksNullity : public ::testing::TestWithParam<int> {};

TEST_P(SinksNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = with_sinks(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(SinksAndClamps, SinksNullity, ::testing::Range(0, 6));

// As in DINOv2: whole, gated with registers, of hidden states, of tokens behind rms norms, in one
// of two layers, tied.
Architecture with_layer_scales(int index) {
  switch (index) {
    case 0:
      return dinov2_architecture(2, 0, false);
    case 1:
      return dinov2_architecture(1, 2, true);
    case 2: {
      Architecture a = dinov2_architecture(1, 3, false);
      a.output = Output::hidden;
      a.classes = 0;
      a.classes_everywhere = a.head_bias = false;
      return a;
    }
    default: {
      Architecture a = known_architecture(index == 5 ? "gpt2, tied" : "llama");
      a.vocabulary = 40;
      Layer scaled = a.kinds[0];
      scaled.layer_scale = true;
      a.set_layers(index == 4 ? std::vector{a.kinds[0], scaled} : std::vector{scaled, scaled});
      return a;
    }
  }
}

class LayerScaleNullity : public ::testing::TestWithParam<int> {};

TEST_P(LayerScaleNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = with_layer_scales(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(LayerScales, LayerScaleNullity, ::testing::Range(0, 6));

class MixedNullity : public ::testing::TestWithParam<int> {};

TEST_P(MixedNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = layers_with_and_without_positions(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(LayersThatDiffer, MixedNullity, ::testing::Range(0, 6));

// docs/findings.md, 13: what symmetry_of leaves out.
TEST(Nullity, IsLargerBehindAHomogeneousPostNormBlock) {
  Architecture a = random_architecture(11);
  a.head_transform = false;
  ASSERT_TRUE(is_homogeneous_post_norm(a) && a.norm == Norm::rms && a.layers == 2);
  const std::int64_t d = a.width;
  expect_complete(a, symmetry_of(a).dimension() + 2 * (d - 1));
  a.layers = 1;
  expect_complete(a, symmetry_of(a).dimension() + (d - 1) + d * (d - 1) / 2);
}

// T5's own table: every bucket is reached.
TEST(Nullity, OfALargeRelativeTable) {
  Architecture a = known_architectures().front().architecture;
  a.kinds[0].attention.positions = Positions::relative;
  a.kinds[0].attention.rotary_dims = 0;
  a.kinds[0].attention.rotary_frequencies.clear();
  a.kinds[0].attention.relative_buckets = 32;
  a.kinds[0].attention.relative_max_distance = 128;
  a.layers = 1;
  expect_complete(a, symmetry_of(a).dimension());
}

}  // namespace
}  // namespace regauge
