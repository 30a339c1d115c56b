// Notions of single families: the group is complete where its dimension is the nullity.
#include <gtest/gtest.h>

#include "lab/complete.h"
#include "regauge/symmetry/symmetry.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

using testing::expect_complete;

// CLIP and SigLIP in small, and their towers alone.
class TowersNullity : public ::testing::TestWithParam<int> {};

TEST_P(TowersNullity, IsTheDimensionOfTheGroup) {
  const bool siglip = GetParam() % 2 == 1;
  const Architecture a = GetParam() < 2   ? text_tower(siglip)
                         : GetParam() < 4 ? vision_tower(siglip)
                                          : two_towers(siglip);
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(Towers, TowersNullity, ::testing::Range(0, 6));

// As in Qwen3-Next: gated attention alone, and behind a delta net; delta nets alone, with as many
// key heads as value heads, with eps.
Architecture with_delta_nets(int index) {
  if (index < 4) return qwen3_next_architecture(index % 2 == 0 ? 8 : 6, 2, index >= 2);
  Architecture a = known_architecture("llama");
  a.vocabulary = 40;
  a.layers = 1;
  set_delta_net(a.kinds[0], {.key_heads = index == 4 ? 2 : 1,
                             .value_heads = 2,
                             .key_width = 2,
                             .value_width = 3,
                             .kernel = 2});
  if (index == 5) a.norm_eps = 0.01;
  return a;
}

class DeltaNullity : public ::testing::TestWithParam<int> {};

TEST_P(DeltaNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = with_delta_nets(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(DeltaNets, DeltaNullity, ::testing::Range(0, 6));

// LLaVA, with and without a bias of the projector, tied, and Gemma 3 with pictures, in small.
Architecture vectors_among_tokens(int index) {
  Architecture a = known_architecture("llama");
  a.vocabulary = 40;
  a.input_width = 7;
  a.input_bias = index != 1;
  a.tied = index >= 2;
  if (index == 3) a.kinds[0].placement = Placement::both;
  if (index >= 3) a.deep_inputs = index == 3 ? 1 : a.layers;  // Qwen3-VL in small
  return a;
}

class VectorsNullity : public ::testing::TestWithParam<int> {};

TEST_P(VectorsNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = vectors_among_tokens(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(AmongTokens, VectorsNullity, ::testing::Range(0, 5));

// Nemotron and Arcee, Ministral 3 in small.
Architecture small_notion(int index) {
  Architecture a = known_architecture("llama");
  if (index < 3) {
    a.kinds[0].ffn.gated = false;
    a.kinds[0].ffn.activation = Activation::relu_squared;
    if (index >= 1) a.norm_bias = a.kinds[0].ffn.biases.up = a.kinds[0].ffn.biases.down = true;
    if (index >= 1) a.norm = Norm::layer;
    if (index == 2) a.norm_eps = 0;
  } else {
    a.kinds[0].attention.temperature = 0.3;
    a.kinds[0].attention.temperature_length = 2;
  }
  return a;
}

class SmallNotionNullity : public ::testing::TestWithParam<int> {};

TEST_P(SmallNotionNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = small_notion(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(SquaresTemperatures, SmallNotionNullity, ::testing::Range(0, 4));

// Gemma 4 in small, in two widths; values behind a norm in a stream that rotates; with eps.
Architecture with_norms_of_values(int index) {
  if (index == 2) {
    Architecture a = known_architecture("llama");
    a.vocabulary = 40;
    a.kinds[0].attention.value_norm = true;
    return a;
  }
  Architecture a = gemma4_architecture();
  if (index == 1) {
    a.width = 6;
    a.tied = false;
    for (auto& kind : a.kinds) kind.attention.heads = kind.attention.kv_heads = 2;
  }
  if (index == 3) a.norm_eps = 0.01;
  return a;
}

class ValueNormNullity : public ::testing::TestWithParam<int> {};

TEST_P(ValueNormNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = with_norms_of_values(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

// Gemma 4 with experts in small, in two widths; with eps; experts with factors in a stream that
// rotates.
Architecture with_norms_of_experts(int index) {
  if (index == 3) {
    Architecture a = known_architecture("llama");
    a.vocabulary = 40;
    a.kinds[0].ffn.width = 3;
    a.kinds[0].ffn.experts = {.count = 3, .active = 2, .shared_width = 2, .scales = true};
    return a;
  }
  Architecture a = gemma4_experts_architecture();
  a.width = index == 1 ? 8 : 6;
  if (index == 2) a.norm_eps = 0.01;
  return a;
}

class ExpertNormNullity : public ::testing::TestWithParam<int> {};

TEST_P(ExpertNormNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = with_norms_of_experts(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(NormsOfExperts, ExpertNormNullity, ::testing::Range(0, 4));

// Gemma 4 E2B in small: the numbers are the Jacobian's of transformers' own models (theory.md).
struct SmallGemma4 {
  Gemma4Sizes sizes;
  std::int64_t dimension;
};

class TablesNullity : public ::testing::TestWithParam<SmallGemma4> {};

TEST_P(TablesNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = gemma4_small_architecture(GetParam().sizes);
  EXPECT_EQ(symmetry_of(a).dimension(), GetParam().dimension);
  expect_complete(a, GetParam().dimension);
}

INSTANTIATE_TEST_SUITE_P(
    TablesAndSharedKeys, TablesNullity,
    ::testing::Values(
        SmallGemma4{{.table_width = 3}, 174}, SmallGemma4{{.table_width = 3, .eps = true}, 99},
        SmallGemma4{{.table_width = 3, .vectors = 7}, 134},
        SmallGemma4{{.table_width = 3, .eps = true, .vectors = 7}, 57},
        SmallGemma4{{.width = 8, .vocabulary = 34, .neurons = 6, .table_width = 4}, 219},
        SmallGemma4{
            {.vocabulary = 26, .neurons = 4, .layers = 4, .shared = 2, .twice_as_wide = true}, 113},
        SmallGemma4{{.width = 8, .shared = 1, .heads = 4}, 71},
        SmallGemma4{{.vocabulary = 24,
                     .neurons = 4,
                     .table_width = 3,
                     .shared = 1,
                     .twice_as_wide = true,
                     .eps = true},
                    89}));

INSTANTIATE_TEST_SUITE_P(NormsOfValues, ValueNormNullity, ::testing::Range(0, 4));

// Whisper in small, of one encoder layer and of two, and some drawn at random.
class FramesNullity : public ::testing::TestWithParam<int> {};

TEST_P(FramesNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = GetParam() == 0   ? whisper_architecture({14, 6, 1, 1, 2, 5})
                         : GetParam() == 1 ? whisper_architecture({14, 8, 2, 1, 3, 6})
                                           : frames_architecture(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(EncodersOfVectors, FramesNullity, ::testing::Range(0, 5));

// wav2vec2 and HuBERT in small, of both placements, with norms of each kind.
class SoundsNullity : public ::testing::TestWithParam<int> {};

TEST_P(SoundsNullity, IsTheDimensionOfTheGroup) {
  Architecture a = GetParam() < 2 ? wav2vec2_architecture(GetParam() == 1)
                                  : sounds_architecture(static_cast<std::uint64_t>(GetParam()));
  a.kinds[0].ffn.activation = Activation::gelu;  // a ReLU may be stuck
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(PositionalConvolutions, SoundsNullity,
                         ::testing::Values(0, 1, 3, 4, 6, 7));

// A table of distances that layers share beside one of positions; a transform behind a final norm,
// with a stream that rotates, tied, behind an embedding norm, beside hidden states.
Architecture encoders(int index) {
  if (index < 2) return mpnet_architecture(2, index == 0 ? 11 : 4);
  Architecture a = transform_architecture(index == 3 || index == 4, index == 4);
  if (index == 5) a.output.add(Output::hidden);
  return a;
}

class EncoderNullity : public ::testing::TestWithParam<int> {};

TEST_P(EncoderNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = encoders(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(Encoders, EncoderNullity, ::testing::Range(0, 6));

// ModernBERT in small, without a head of its own and with one; biases; and some drawn at random.
Architecture bare(int index) {
  if (index < 2) return modernbert_architecture(index == 0 ? 34 : 30, index + 1, index == 0);
  if (index > 3) {
    Architecture a = bare_architecture(static_cast<std::uint64_t>(index));
    a.norm_eps = 0;  // a table that goes into a norm with eps takes it up (docs/findings.md, 8)
    for (Layer& kind : a.kinds) kind.ffn.activation = Activation::gelu;  // a ReLU may be stuck
    return a;
  }
  Architecture a = modernbert_architecture(40, 1, false);
  a.norm_bias = true;
  if (index == 3) {
    a.kinds[0].attention.biases = {.q = true, .k = true, .v = true, .o = true};
    a.kinds[0].ffn.biases = {.gate = true, .up = true, .down = true};
  }
  return a;
}

class BareNullity : public ::testing::TestWithParam<int> {};

TEST_P(BareNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = bare(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(FirstAttentions, BareNullity, ::testing::Range(0, 10));

// DINOv3, BEiT and DeiT in small, and some drawn at random.
Architecture of_pictures(int index) {
  switch (index) {
    case 0:
    case 1:
      return dinov3_architecture(index == 1);
    case 2:
    case 3:
      return beit_architecture(index, index == 3, index == 2);
    case 4:
    case 5:
      return deit_architecture(index == 4);
    default:
      return vision_architecture(static_cast<std::uint64_t>(index));
  }
}

class PicturesNullity : public ::testing::TestWithParam<int> {};

TEST_P(PicturesNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = of_pictures(GetParam());
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(Pictures, PicturesNullity, ::testing::Range(0, 6));

// ESM-2 in small, tied and not, with contacts and without.
class ProteinsNullity : public ::testing::TestWithParam<int> {};

TEST_P(ProteinsNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = esm_architecture(GetParam() % 2 == 1, GetParam() >= 2);
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(Proteins, ProteinsNullity, ::testing::Range(0, 4));

// ALBERT in small, and drawn ones whose tables are at least 4 wide.
class RepeatedNullity : public ::testing::TestWithParam<int> {};

TEST_P(RepeatedNullity, IsTheDimensionOfTheGroup) {
  const int index = GetParam();
  const Architecture a = index < 2 ? albert_architecture(index == 0 ? 6 : 8, 3 - index)
                                   : repeated_architecture(static_cast<std::uint64_t>(index));
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(Repeated, RepeatedNullity, ::testing::Range(0, 16));

}  // namespace
}  // namespace regauge
