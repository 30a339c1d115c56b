// The dimension of symmetry_of against theory.md's table and against the calculus of its section
// 1b.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "against_calculus.h"
#include "architectures.h"
#include "calculus.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge {
namespace {

using testing::expect_the_calculus;
using testing::table_takes_up_its_norm;

TEST(Dimension, EqualsTheoryTable) {
  for (const auto& known : known_architectures()) {
    EXPECT_EQ(symmetry_of(known.architecture).dimension(), known.nullity) << known.name;
  }
}

TEST(Dimension, EqualsTheCalculusOnRandomArchitectures) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Architecture architecture = random_architecture(seed);
    if (table_takes_up_its_norm(architecture)) continue;
    ++compared;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(compared, 350);
}

TEST(Dimension, EqualsTheCalculusWhereLayersDiffer) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const Architecture architecture = mixed_architecture(seed);
    if (table_takes_up_its_norm(architecture)) continue;
    ++compared;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(compared, 100);
}

TEST(Dimension, EqualsTheCalculusWhereBranchesAreNormed) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    expect_the_calculus(output_norm_architecture(seed), seed);
  }
}

TEST(Dimension, EqualsTheCalculusWithConstantsSharedAndJointNorms) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const Architecture architecture = constants_architecture(seed);
    if (table_takes_up_its_norm(architecture)) continue;
    ++compared;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(compared, 130);
}

// docs/findings.md, 15.
TEST(Dimension, IsLargerWhereAJointQkNormHasMoreCoordinatesThanTheStream) {
  Architecture a = known_architecture("llama, no positions");
  a.width = 4;
  a.layers = 1;
  Attention& attention = a.kinds[0].attention;
  attention.qk_norm = QkNorm::joint;
  attention.heads = attention.kv_heads = 2;
  attention.qk_width = 2;
  EXPECT_EQ(symmetry_of(a).dimension(), calculus(a, 1).dimension);
  attention.qk_width = 5;
  EXPECT_LT(symmetry_of(a).dimension(), calculus(a, 1).dimension);
}

TEST(Dimension, EqualsTheCalculusWithExperts) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const Architecture architecture = experts_architecture(seed);
    if (table_takes_up_its_norm(architecture)) continue;
    ++compared;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(compared, 90);
}

TEST(Dimension, EqualsTheCalculusWithSeveralOutputs) {
  int compared = 0, several = 0, pooled = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const Architecture architecture = outputs_architecture(seed);
    if (table_takes_up_its_norm(architecture)) continue;
    ++compared;
    several += architecture.output.list().size() > 1 ? 1 : 0;
    pooled += symmetry_of(architecture).find_space("head.pooler") != nullptr ? 1 : 0;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(compared, 130);
  EXPECT_GT(several, 70);
  EXPECT_GT(pooled, 12);
}

TEST(Dimension, EqualsTheCalculusOfEncoderDecoders) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    expect_the_calculus(encoder_decoder(seed), seed);
  }
}

TEST(Dimension, EqualsTheCalculusOfTwoStreams) {
  int post = 0, apart = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const Architecture architecture = two_streams(seed);
    post += architecture.plain_stream() ? 0 : 1;
    apart += architecture.encoder_vocabulary > 0 ? 1 : 0;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(post, 60);
  EXPECT_GT(apart, 5);
}

// The nullity of the Jacobian of transformers' own T5 and UMT5 at these sizes.
TEST(Dimension, IsWhatWasMeasuredOnT5) {
  const auto dimension = [](const Architecture& a) {
    expect_the_calculus(a, 1);
    return symmetry_of(a).dimension();
  };
  EXPECT_EQ(dimension(t5_architecture({14, 6, 2, 2, 3, 5}, true, false)), 330);
  EXPECT_EQ(dimension(t5_architecture({18, 8, 1, 2, 4, 5}, true, true)), 414);
  EXPECT_EQ(dimension(t5_architecture({14, 6, 2, 1, 3, 4}, false, true)), 211);
  EXPECT_EQ(dimension(t5_architecture({12, 6, 2, 2, 3, 5}, true, false, true)), 336);
  // With a table each the two streams would turn, and have their lengths, apart.
  const Architecture a = t5_architecture({14, 6, 2, 2, 3, 5}, true, false);
  EXPECT_EQ(calculus(a, 1, Mistake::table_doubled).dimension, 330 + 6 * 5 / 2 + 1);
}

// Whisper: what a gelu writes does not turn, so that nothing of the convolutions is redundant.
TEST(Dimension, EqualsTheCalculusWithEncodersOfVectors) {
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const Architecture a = frames_architecture(seed);
    expect_the_calculus(a, seed);
    EXPECT_GT(calculus(a, seed, Mistake::gelu_forgotten).dimension, symmetry_of(a).dimension());
  }
}

// The nullity of the Jacobian of transformers' own Whisper at these sizes.
TEST(Dimension, IsWhatWasMeasuredOnWhisper) {
  EXPECT_EQ(symmetry_of(whisper_architecture({14, 6, 1, 1, 3, 5})).dimension(), 304);
  EXPECT_EQ(symmetry_of(whisper_architecture({14, 8, 2, 1, 4, 6})).dimension(), 596);
}

// The same of its wav2vec2.
TEST(Dimension, IsWhatWasMeasuredOnWav2vec2) {
  EXPECT_EQ(symmetry_of(wav2vec2_architecture(false)).dimension(), 143);
  EXPECT_EQ(symmetry_of(wav2vec2_architecture(true)).dimension(), 170);
}

TEST(Dimension, EqualsTheCalculusWithPositionalConvolutions) {
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const Architecture a = sounds_architecture(seed);
    expect_the_calculus(a, seed);
    EXPECT_EQ(calculus(a, seed, Mistake::length_forgotten).dimension,
              symmetry_of(a).dimension() - a.positional_kernel);
  }
}

// The nullity of the Jacobian of transformers' own BART, Marian, mBART and Pegasus at these sizes
// (without the rows of padding, which nothing reads).
TEST(Dimension, IsWhatWasMeasuredOnBart) {
  const auto dimension = [](PositionTable table, Placement placement, bool embedding_norm,
                            std::int64_t encoder_vocabulary = 0) {
    Architecture a = bart_architecture({14, 6, 1, 1, 2, 5}, table, placement, embedding_norm);
    std::vector<Layer> layers;
    for (std::int64_t n = 0; n < a.layers; ++n) {
      layers.push_back(a.layer(n));
      layers.back().attention.heads = layers.back().attention.kv_heads = 3;
    }
    a.set_layers(layers);
    a.encoder_vocabulary = encoder_vocabulary;
    expect_the_calculus(a, 1);
    return symmetry_of(a).dimension();
  };
  EXPECT_EQ(dimension(PositionTable::learned, Placement::post, true), 264);
  EXPECT_EQ(dimension(PositionTable::sinusoidal, Placement::post, false), 206);
  EXPECT_EQ(dimension(PositionTable::sinusoidal, Placement::post, false, 13), 214);
  EXPECT_EQ(dimension(PositionTable::learned, Placement::pre, true), 296);
  EXPECT_EQ(dimension(PositionTable::sinusoidal, Placement::pre, false), 283);
}

TEST(Dimension, EqualsTheCalculusWithRoutersOfAllKinds) {
  int compared = 0, sigmoid = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const Architecture architecture = router_architecture(seed);
    if (table_takes_up_its_norm(architecture)) continue;
    ++compared;
    sigmoid += architecture.kinds[0].ffn.experts.scoring == Scoring::sigmoid ? 1 : 0;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(compared, 100);
  EXPECT_GT(sigmoid, 60);
}

TEST(Dimension, EqualsTheCalculusWithLatents) {
  int compared = 0, with_two = 0;
  for (std::uint64_t seed = 0; seed < 140; ++seed) {
    const Architecture architecture = latents_architecture(seed);
    if (table_takes_up_its_norm(architecture)) continue;
    ++compared;
    with_two += architecture.kinds[0].attention.q_latent > 0 ? 1 : 0;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(compared, 100);
  EXPECT_GT(with_two, 40);
}

// theory.md, section 2: of few tokens a latent sees too little to pin its lengths.
TEST(Dimension, CountsTheQuadricsOfAFirstLatent) {
  Architecture a = latents_architecture(1);
  a.input = Input::tokens;
  a.output = Output::tokens;
  a.class_token = a.input_bias = a.embedding_norm = false;
  a.input_width = a.token_types = a.classes = 0;
  a.norm_eps = 0;
  a.width = 8;
  a.kinds[0].attention.kv_latent = 5;
  a.kinds[0].attention.q_latent = 0;
  a.vocabulary = 60;
  const std::int64_t many = symmetry_of(a).dimension();
  a.vocabulary = 14;
  EXPECT_EQ(symmetry_of(a).dimension(), many + 1);
  a.norm_eps = 0.01;
  a.vocabulary = 60;
  const std::int64_t with_eps = symmetry_of(a).dimension();
  a.vocabulary = 14;
  EXPECT_EQ(symmetry_of(a).dimension(), with_eps + 2);
}

TEST(Dimension, EqualsTheCalculusWithSinksAndClamps) {
  int compared = 0, sinks = 0, clamps = 0, biases = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const Architecture architecture = sinks_architecture(seed);
    if (table_takes_up_its_norm(architecture)) continue;
    ++compared;
    const Layer& layer = architecture.kinds[0];
    sinks += layer.attention.sinks ? 1 : 0;
    clamps += layer.ffn.limit > 0 ? 1 : 0;
    biases += layer.ffn.experts.count > 0 && layer.ffn.biases.down ? 1 : 0;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(compared, 90);
  EXPECT_GT(std::min({sinks, clamps, biases}), 20);
}

TEST(Dimension, EqualsTheCalculusWithLayerScales) {
  int compared = 0, registers = 0, rotating = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const Architecture architecture = layer_scale_architecture(seed);
    if (table_takes_up_its_norm(architecture)) continue;
    ++compared;
    registers += architecture.registers > 0 ? 1 : 0;
    const Space* stream = symmetry_of(architecture).find_space("residual");
    rotating += stream != nullptr && stream->is_orthogonal() ? 1 : 0;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(compared, 130);
  EXPECT_GT(std::min(registers, rotating), 40);
}

TEST(Dimension, EqualsTheCalculusWithDeltaNetsAndOutputGates) {
  int deltas = 0, gates = 0, both = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const Architecture architecture = delta_architecture(seed);
    bool delta = false, gate = false;
    for (const auto& kind : architecture.kinds) {
      delta = delta || kind.has_delta();
      gate = gate || kind.attention.gate;
    }
    deltas += delta ? 1 : 0;
    gates += gate ? 1 : 0;
    both += delta && gate ? 1 : 0;
    expect_the_calculus(architecture, seed);
  }
  EXPECT_GT(std::min(deltas, gates), 60);
  EXPECT_GT(both, 30);
}

// theory2.md, section 11.
TEST(Dimension, OfQwen3Next) {
  EXPECT_EQ(symmetry_of(qwen3_next_architecture(8, 2, false)).dimension(), 99);
  EXPECT_EQ(symmetry_of(qwen3_next_architecture(8, 2, true)).dimension(), 101);
  Architecture gated = qwen3_next_architecture(6, 1, false);
  gated.kinds[0].attention.heads = 4;
  gated.kinds[0].attention.kv_heads = 2;
  gated.kinds[0].ffn.width = 3;
  EXPECT_EQ(symmetry_of(gated).dimension(), 54);
  Architecture both = qwen3_next_architecture(6, 2, true);
  for (auto& kind : both.kinds) kind.ffn.width = 3;
  both.kinds[0].delta = {
      .key_heads = 2, .value_heads = 2, .key_width = 2, .value_width = 3, .kernel = 3};
  EXPECT_EQ(symmetry_of(both).dimension(), 79);
}

TEST(Dimension, EqualsTheCalculusWithVectorsAmongTokens) {
  int compared = 0, biases = 0, rotating = 0, deep = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const Architecture a = vectors_architecture(seed);
    if (table_takes_up_its_norm(a)) continue;
    ++compared;
    biases += a.input_bias ? 1 : 0;
    deep += a.deep_inputs > 0 ? 1 : 0;
    const Symmetry symmetry = symmetry_of(a);
    const Space* stream = symmetry.find_space("residual");
    rotating += stream != nullptr && stream->is_orthogonal() ? 1 : 0;
    expect_the_calculus(a, seed);
    // What nothing reads may change at will, but for the mean, which it could before.
    const std::int64_t seen = a.width - (a.norm == Norm::layer ? 1 : 0);
    const std::int64_t rows = (a.input_width + (a.input_bias ? 1 : 0)) * (1 + a.deep_inputs);
    EXPECT_EQ(calculus(a, seed, Mistake::vectors_forgotten).dimension,
              symmetry.dimension() + rows * seen);
  }
  EXPECT_GT(compared, 130);
  EXPECT_GT(std::min({biases, rotating, deep}), 40);
}

TEST(Dimension, EqualsTheCalculusOfSquaredRelus) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Architecture a = seed % 2 == 0 ? random_architecture(seed) : output_norm_architecture(seed);
    a.head_transform = false;
    for (auto& kind : a.kinds) {
      kind.ffn.gated = kind.ffn.biases.gate = false;
      kind.ffn.activation = Activation::relu_squared;
      kind.attention.temperature = 0.3;  // which changes nothing
      kind.attention.temperature_length = 2;
    }
    if (table_takes_up_its_norm(a)) continue;
    expect_the_calculus(a, seed);
  }
}

TEST(Dimension, OfTwoTowersIsTheSumByTheCalculus) {
  for (const bool siglip : {false, true}) {
    const Architecture text = text_tower(siglip), vision = vision_tower(siglip);
    expect_the_calculus(text, 1);
    expect_the_calculus(vision, 1);
    const Symmetry both = symmetry_of(two_towers(siglip));
    EXPECT_EQ(both.dimension(), symmetry_of(text).dimension() + symmetry_of(vision).dimension());
    EXPECT_NE(both.find_space("layers.3.attn.vo"), nullptr);
    EXPECT_NE(both.find_space("beside.head.norm") != nullptr, siglip);
  }
}

TEST(Dimension, EqualsTheCalculusWherePairsMakeFullTurns) {
  int shifted = 0;
  for (const auto& architecture : full_turn_architectures(80)) {
    if (table_takes_up_its_norm(architecture)) continue;
    shifted += symmetry_of(architecture).find_shift("layers.0.attn.k.constant") != nullptr ? 1 : 0;
    expect_the_calculus(architecture, 1);
  }
  EXPECT_GT(shifted, 20);
}

TEST(Dimension, IsLargerWhereATableTakesUpItsNorm) {
  int larger = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Architecture architecture = random_architecture(seed);
    if (!table_takes_up_its_norm(architecture)) continue;
    const auto dimension = symmetry_of(architecture).dimension();
    EXPECT_LT(dimension, calculus(architecture, seed).dimension) << seed;
    ++larger;
  }
  EXPECT_GT(larger, 5);
}

}  // namespace
}  // namespace regauge
