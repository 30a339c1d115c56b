// B = g A, with noise and without: what was planted is found again.
#include <gtest/gtest.h>

#include <cstdio>

#include "action/function.h"
#include "action/standard_form.h"
#include "arch/fixture.h"
#include "regauge/action/act.h"
#include "regauge/align/align.h"
#include "regauge/base/error.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

using testing::change;
using testing::fixture;
using testing::well_conditioned;

// The largest difference of any tensor, relative to its size.
double difference(const Parameters<double>& a, const Parameters<double>& b) {
  double largest = 0;
  for (const auto& [name, tensor] : a) {
    const double size = tensor.norm() + 1e-3;
    largest = std::max(largest, (tensor - b.at(name)).norm() / size);
  }
  return largest;
}

using Method = Alignment (*)(const Symmetry&, const ReadTensor&, const ReadTensor&,
                             const AlignOptions&, Progress&);

Parameters<double> aligned(Method method, const Symmetry& symmetry, const Parameters<double>& a,
                           const Parameters<double>& b, const AlignOptions& options = {}) {
  const Alignment found = method(symmetry, reader_of(a), reader_of(b), options, Progress::silent());
  check_member(symmetry, found.a_from_b);
  Parameters<double> moved = b;
  act(symmetry, found.a_from_b, moved);
  return moved;
}

Parameters<double> planted(const Symmetry& symmetry, const Parameters<double>& a,
                           const Element& element, double noise, std::uint64_t seed) {
  Parameters<double> b = a;
  act(symmetry, element, b);
  Random random(seed, "noise");
  for (auto& [name, tensor] : b) {
    const double size = noise * tensor.norm() / std::sqrt(static_cast<double>(tensor.size()));
    for (auto& entry : tensor.reshaped()) entry += size * random.normal();
  }
  return b;
}

constexpr double kExact = 1e-5;

TEST(Weights, FindAPlantedElementOfEveryKnownArchitecture) {
  int tested = 0, reversed = 0;
  for (const auto& known : known_architectures()) {
    const Symmetry symmetry = symmetry_of(known.architecture);
    const auto a = random_parameters(known.architecture, 1);
    if (!well_conditioned(symmetry, a)) continue;
    for (const std::uint64_t seed : {1U, 2U}) {
      const Element element = random_element(symmetry, seed);
      const auto b = planted(symmetry, a, element, 0, 0);
      EXPECT_LE(difference(a, aligned(align_weights, symmetry, a, b)), kExact)
          << known.name << ", element " << seed;
      reversed += reverses_stream(element) ? 1 : 0;
    }
    ++tested;
  }
  EXPECT_GE(tested, 30);
  EXPECT_GE(reversed, 2);
}

// Of 40 architectures: how many determine a planted element, and in how many of these it was found.
struct Found {
  int tested = 0, exact = 0;
};
Found find_planted(Architecture (*architecture_of)(std::uint64_t seed)) {
  Found found;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Architecture architecture = architecture_of(seed);
    const Symmetry symmetry = symmetry_of(architecture);
    const auto a = random_parameters(architecture, 1);
    std::vector<std::string> limits;
    standard_form(reader_of(a), symmetry, 1, limits, Progress::silent(), UnknownShifts::kept);
    if (!well_conditioned(symmetry, a) || !limits.empty()) continue;
    const auto b = planted(symmetry, a, random_element(symmetry, 2), 0, 0);
    ++found.tested;
    if (difference(a, aligned(align_weights, symmetry, a, b)) <= kExact) {
      ++found.exact;
    } else {
      std::printf("missed: seed %d, %s\n", static_cast<int>(seed),
                  to_json(architecture).dump().c_str());
    }
  }
  return found;
}

TEST(Weights, FindAPlantedElementOfRandomArchitectures) {
  const Found found = find_planted(random_architecture);
  EXPECT_GE(found.tested, 25);
  EXPECT_EQ(found.exact, found.tested);
}

// So many that not every neuron can be compared with every other.
TEST(Weights, FindAPlantedElementOfManyExperts) {
  Architecture architecture = widened(known_architecture("llama"));
  FeedForward& ffn = architecture.kinds[0].ffn;
  ffn.width = 64;
  ffn.experts = {.count = 128, .active = 4, .renormalised = true, .shared_width = 8};
  for (const bool grouped : {false, true}) {
    if (grouped) {
      ffn.experts.groups = 8;
      ffn.experts.active_groups = 2;
      ffn.experts.group_leaders = 2;
    }
    const Symmetry symmetry = symmetry_of(architecture);
    const auto a = random_parameters(architecture, 1);
    const auto b = planted(symmetry, a, random_element(symmetry, 2), 0, 0);
    EXPECT_GT(difference(a, b), 0.1);
    EXPECT_LE(difference(a, aligned(align_weights, symmetry, a, b)), kExact);
    const auto noisy = planted(symmetry, a, random_element(symmetry, 2), 0.01, 5);
    EXPECT_LE(difference(a, aligned(align_weights, symmetry, a, noisy)), 0.05);
  }
}

class Fixtures : public ::testing::TestWithParam<std::string> {};

TEST(Weights, FindMostPlantedElementsOfEncoderDecoders) {
  int exact = 0;
  constexpr int kTested = 30;
  for (std::uint64_t seed = 0; seed < kTested; ++seed) {
    const Architecture architecture = encoder_decoder(seed);
    const Symmetry symmetry = symmetry_of(architecture);
    const auto a = random_parameters(architecture, 1);
    const auto b = planted(symmetry, a, random_element(symmetry, 2), 0, 0);
    exact += difference(a, aligned(align_weights, symmetry, a, b)) <= kExact ? 1 : 0;
  }
  EXPECT_GE(exact, kTested * 8 / 10);
}

TEST(Weights, FindPlantedElementsOfTwoStreams) {
  const Found found = find_planted(two_streams);
  EXPECT_GE(found.tested, 20);
  EXPECT_EQ(found.exact, found.tested);
}

// Of 33 one is missed: coordinate ascent may end elsewhere in models this small.
TEST(Weights, FindMostPlantedElementsOfEncodersOfVectors) {
  const Found found = find_planted(frames_architecture);
  EXPECT_GE(found.tested, 20);
  EXPECT_GE(found.exact, found.tested * 9 / 10);
}

TEST(Weights, FindPlantedElementsBehindPositionalConvolutions) {
  const Found found = find_planted(sounds_architecture);
  EXPECT_GE(found.tested, 20);
  EXPECT_EQ(found.exact, found.tested);
}

// Matching by weights is a heuristic: on models this small it misses some, alike layers or not.
TEST(Weights, FindMostPlantedElementsWhereLayersDiffer) {
  const Found found = find_planted(mixed_architecture);
  EXPECT_GE(found.tested, 25);
  EXPECT_GE(found.exact, found.tested * 8 / 10);
}

TEST(Weights, FindMostPlantedElementsBehindLayerScales) {
  const Found found = find_planted(layer_scale_architecture);
  EXPECT_GE(found.tested, 25);
  EXPECT_GE(found.exact, found.tested * 8 / 10);
}

TEST(Weights, FindMostPlantedElementsBehindNormsOfExperts) {
  // A branch of few ReLUs may write nothing, of which a norm without eps makes no vector.
  const Found found = find_planted([](std::uint64_t seed) {
    Architecture a = own_norms_architecture(seed);
    if (a.norm_eps == 0) a.norm_eps = 1e-6;
    return a;
  });
  EXPECT_GE(found.tested, 25);
  EXPECT_GE(found.exact, found.tested * 8 / 10);
}

TEST(Weights, FindMostPlantedElementsOfDeltaNets) {
  const Found found = find_planted(delta_architecture);
  EXPECT_GE(found.tested, 25);
  EXPECT_GE(found.exact, found.tested * 8 / 10);
}

TEST_P(Fixtures, GiveBackAPlantedElement) {
  const Model model = Model::open(fixture(GetParam()));
  const Symmetry symmetry = symmetry_of(model.architecture);
  const auto a = read_parameters(model);
  const auto b = planted(symmetry, a, random_element(symmetry, 3), 0, 0);
  if (model.architecture.has_tables()) {
    EXPECT_THROW(aligned(align_weights, symmetry, a, b), UsageError);
    return;
  }
  EXPECT_LE(difference(a, aligned(align_weights, symmetry, a, b)), kExact);
}

INSTANTIATE_TEST_SUITE_P(Every, Fixtures, ::testing::ValuesIn(testing::fixture_names()),
                         testing::test_name);

TEST(TwoStage, FindsAPlantedElementOfItsOwnGroup) {
  int tested = 0;
  for (const auto& known : known_architectures()) {
    if (known.architecture.kinds[0].attention.has_qk_norm())
      continue;  // two_stage does not cover it
    const Symmetry symmetry = symmetry_of(known.architecture);
    const auto a = random_parameters(known.architecture, 1);
    const auto b =
        planted(symmetry, a,
                random_element(symmetry, 2, {Category::heads, Category::qk, Category::vo}), 0, 0);
    EXPECT_LE(difference(a, aligned(align_two_stage, symmetry, a, b)), 1e-3) << known.name;
    ++tested;
  }
  EXPECT_GE(tested, 28);
}

Element permuted_stream(const Symmetry& symmetry, Element element, std::uint64_t seed) {
  const Space& stream = *symmetry.find_space("residual");
  const auto width = stream.size();
  Matrix<double> map = Matrix<double>::Zero(width, width);
  const auto step = static_cast<Eigen::Index>(seed % static_cast<std::uint64_t>(width - 1)) + 1;
  for (Eigen::Index i = 0; i < width; ++i) map(i, (i + step) % width) = 1;
  element.maps[stream.name] = BlockMap<double>(1, width, {}, map);
  return element;
}

// Heads, neurons' places and the stream: what the widened method is for.
TEST(TwoStage, FindsTheStreamAndTheNeuronsWhenAsked) {
  for (const char* name : {"llama", "llama, no positions", "llama, learned positions"}) {
    Architecture architecture = known_architecture(name);
    architecture.kinds[0].ffn.activation = Activation::gelu;
    architecture.kinds[0].ffn.gated =
        false;  // no scales between up and down, which nothing here balances
    const Symmetry symmetry = symmetry_of(architecture);
    const auto a = random_parameters(architecture, 1);
    const Element inside =
        random_element(symmetry, 2, {Category::heads, Category::qk, Category::vo, Category::ffn});
    const Element rotated = random_element(
        symmetry, 2,
        {Category::heads, Category::qk, Category::vo, Category::ffn, Category::residual});
    const auto error = [&](const Element& element, bool neurons, StreamMap stream) {
      AlignOptions options;
      options.neurons = neurons;
      options.stream = stream;
      const auto b = planted(symmetry, a, element, 0, 0);
      return difference(a, aligned(align_two_stage, symmetry, a, b, options));
    };
    EXPECT_GT(error(inside, false, StreamMap::none), 0.1) << name;
    EXPECT_LE(error(inside, true, StreamMap::none), 1e-3) << name;
    EXPECT_LE(error(inside, true, StreamMap::permutation), 1e-3) << name;  // which stays
    const Element permuted = permuted_stream(symmetry, inside, 2);
    EXPECT_GT(error(permuted, true, StreamMap::none), 0.1) << name;
    EXPECT_LE(error(permuted, true, StreamMap::permutation), 1e-3) << name;
    EXPECT_LE(error(permuted, true, StreamMap::orthogonal), 1e-3) << name;
    EXPECT_GT(error(rotated, true, StreamMap::permutation), 0.1) << name;
    EXPECT_LE(error(rotated, true, StreamMap::orthogonal), 1e-3) << name;
  }
}

// A table of sinusoids pins the stream, and no permutation of coordinates leaves it in place.
TEST(TwoStage, LeavesAPinnedStreamWhereItIs) {
  const Architecture& architecture = known_architecture("llama, sinusoidal, T = 12");
  const Symmetry symmetry = symmetry_of(architecture);
  const auto a = random_parameters(architecture, 1), b = random_parameters(architecture, 2);
  AlignOptions options;
  options.stream = StreamMap::permutation;
  const Alignment found =
      align_two_stage(symmetry, reader_of(a), reader_of(b), options, Progress::silent());
  EXPECT_EQ(found.report.at("stream"), "pinned");
  EXPECT_LE(change(architecture, b, aligned(align_two_stage, symmetry, a, b, options)), 1e-7);
}

// Two heads that differ in the bias of their queries alone.
TEST(TwoStage, SeesBiasesInStageOne) {
  const Architecture& architecture = known_architecture("llama, q/k/v biases");
  const Symmetry symmetry = symmetry_of(architecture);
  auto a = random_parameters(architecture, 1);
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer) {
    const std::string at = "layers." + std::to_string(layer) + ".attn.";
    for (const char* name : {"q.weight", "k.weight", "k.bias", "v.weight", "v.bias"}) {
      auto& tensor = a.at(at + name);
      tensor.rightCols(tensor.cols() / 2) = tensor.leftCols(tensor.cols() / 2).eval();
    }
    auto& o = a.at(at + "o.weight");
    o.bottomRows(o.rows() / 2) = o.topRows(o.rows() / 2).eval();
  }
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const auto b = planted(
        symmetry, a, random_element(symmetry, seed, {Category::heads, Category::qk, Category::vo}),
        0, 0);
    EXPECT_LE(difference(a, aligned(align_two_stage, symmetry, a, b)), 1e-3) << seed;
  }
}

// Whatever was found: B computes what it computed.
TEST(EveryMethod, KeepsTheFunctionOfUnrelatedModels) {
  int tested = 0;
  for (const auto& known : known_architectures()) {
    const Symmetry symmetry = symmetry_of(known.architecture);
    const auto a = random_parameters(known.architecture, 1);
    const auto b = random_parameters(known.architecture, 2);
    if (!well_conditioned(symmetry, a) || !well_conditioned(symmetry, b)) continue;
    for (const Method method : {align_two_stage, align_weights}) {
      EXPECT_LE(change(known.architecture, b, aligned(method, symmetry, a, b)), 1e-7) << known.name;
    }
    for (const StreamMap stream : {StreamMap::permutation, StreamMap::orthogonal}) {
      AlignOptions widened;
      widened.neurons = true;
      widened.stream = stream;
      EXPECT_LE(change(known.architecture, b, aligned(align_two_stage, symmetry, a, b, widened)),
                1e-7)
          << known.name << ", " << stream_map_name(stream);
    }
    ++tested;
  }
  EXPECT_GE(tested, 29);
}

const std::set<Category> kAttention = {Category::heads, Category::qk, Category::vo};

// Two heads with the same Q K^T and U O, which differ only in the frequency that each pair of
// coordinates turns with (theory.md section 5): by that matrix alone they are one head.
TEST(RotaryHeads, ThatShareTheirProductAreToldApartByWeightsOnly) {
  const Architecture& architecture = known_architectures().front().architecture;
  ASSERT_EQ(architecture.kinds[0].attention.positions, Positions::rotary);
  ASSERT_EQ(architecture.kinds[0].attention.heads, 2);
  const Symmetry symmetry = symmetry_of(architecture);
  const auto width = architecture.kinds[0].attention.qk_width;
  int two_stage_fails = 0, tested = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    auto a = random_parameters(architecture, seed);
    for (std::int64_t layer = 0; layer < architecture.layers; ++layer) {
      const std::string at = "layers." + std::to_string(layer) + ".attn.";
      for (const char* name : {"q.weight", "k.weight"}) {
        auto& tensor = a.at(at + name);
        for (std::int64_t i = 0; i < width; ++i) {  // pairs in reverse order
          tensor.col(width + i) = tensor.col(width - 2 - i + 2 * (i % 2));
        }
      }
      auto& v = a.at(at + "v.weight");
      v.rightCols(architecture.kinds[0].attention.v_width) =
          v.leftCols(architecture.kinds[0].attention.v_width).eval();
      auto& o = a.at(at + "o.weight");
      o.bottomRows(architecture.kinds[0].attention.v_width) =
          o.topRows(architecture.kinds[0].attention.v_width).eval();
    }
    const auto b = planted(symmetry, a, random_element(symmetry, seed, kAttention), 0, 0);
    EXPECT_LE(difference(a, aligned(align_weights, symmetry, a, b)), kExact) << seed;
    two_stage_fails += difference(a, aligned(align_two_stage, symmetry, a, b)) > 0.1 ? 1 : 0;
    ++tested;
  }
  EXPECT_GE(two_stage_fails, 2) << "of " << tested;
}

// The share of layers whose heads all come back to their places.
double heads_at_home(Method method, const Symmetry& symmetry, bool all_moved, const char* scope,
                     double noise) {
  constexpr int kTrials = 12;
  int home = 0;
  for (std::uint64_t seed = 0; seed < kTrials; ++seed) {
    const auto a = random_parameters(symmetry.architecture, seed);
    const Element element = all_moved ? random_element(symmetry, seed + 100)
                                      : random_element(symmetry, seed + 100, kAttention);
    const auto b = planted(symmetry, a, element, noise, seed);
    AlignOptions options;
    options.scope = Scope(scope);
    const auto found = method(symmetry, reader_of(a), reader_of(b), options, Progress::silent());
    for (std::int64_t layer = 0; layer < symmetry.architecture.layers; ++layer) {
      const Space& heads = *symmetry.find_space("layers." + std::to_string(layer) + ".attn.heads");
      const auto both = map_of(symmetry, found.a_from_b, heads) * map_of(symmetry, element, heads);
      bool all = true;
      for (std::int64_t i = 0; i < heads.count; ++i) all = all && both.target(i) == i;
      home += all ? 1 : 0;
    }
  }
  return static_cast<double>(home) / static_cast<double>(kTrials * symmetry.architecture.layers);
}

// Noise relative to the tensors' sizes. Where only attention has moved two_stage knows that the
// stream has not; weights has to be told.
TEST(Recovery, AgainstNoise) {
  Architecture architecture = known_architectures().front().architecture;
  architecture.width = 16;
  architecture.kinds[0].attention.heads = architecture.kinds[0].attention.kv_heads = 4;
  architecture.vocabulary = 40;
  architecture.norm_eps = 1e-5;
  const Symmetry symmetry = symmetry_of(architecture);
  std::printf(
      "       attention moved        all moved\n"
      "noise  two_stage  weights    two_stage  weights\n");
  for (const double noise : {0.0, 0.3, 0.6, 1.0, 1.5, 2.5}) {
    const double two_stage = heads_at_home(align_two_stage, symmetry, false, "all", noise);
    const double weights = heads_at_home(align_weights, symmetry, false, "attention", noise);
    const double lost = heads_at_home(align_two_stage, symmetry, true, "all", noise);
    const double whole = heads_at_home(align_weights, symmetry, true, "all", noise);
    std::printf("%5.1f  %9.2f  %7.2f    %9.2f  %7.2f\n", noise, two_stage, weights, lost, whole);
    EXPECT_GE(weights, two_stage - 0.1) << noise;
    EXPECT_LE(lost, 0.3) << noise;
    if (noise <= 0.3) {
      EXPECT_EQ(weights, 1) << noise;
      EXPECT_EQ(whole, 1) << noise;
    }
  }
}

TEST(Scope, OutsideOfItNothingMoves) {
  const Architecture& architecture = known_architectures().front().architecture;
  const Symmetry symmetry = symmetry_of(architecture);
  const auto a = random_parameters(architecture, 1), b = random_parameters(architecture, 2);
  AlignOptions options;
  options.scope = Scope("attention:0");
  const auto moved = aligned(align_weights, symmetry, a, b, options);
  int changed = 0;
  for (const auto& [name, tensor] : b) {
    if (name.starts_with("layers.0.attn.") && !name.ends_with("gain")) {
      changed += moved.at(name) != tensor ? 1 : 0;
    } else {
      EXPECT_EQ(moved.at(name), tensor) << name;
    }
  }
  EXPECT_EQ(changed, 4);
}

}  // namespace
}  // namespace regauge
