#include "calculus.h"

#include <gtest/gtest.h>

#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "architectures.h"

namespace regauge {
namespace {

constexpr double kGap = 1e6;

const KnownArchitecture& known(const std::string& name) {
  for (const auto& row : known_architectures()) {
    if (row.name == name) return row;
  }
  throw std::out_of_range(name);
}

using Change = void (*)(Architecture&);

// The dimension of a known architecture after a change, minus what it was.
std::int64_t difference(const std::string& name, Change change) {
  Architecture architecture = known(name).architecture;
  change(architecture);
  validate(architecture);
  const CalculusResult result = calculus(architecture, 1);
  EXPECT_GT(result.gap, kGap);
  return result.dimension - known(name).nullity;
}

TEST(Calculus, GivesEveryRowOfTheTable) {
  EXPECT_EQ(known_architectures().size(), 31U);
  for (const auto& row : known_architectures()) {
    SCOPED_TRACE(row.name);
    if (row.parameters != 0) {
      EXPECT_EQ(parameter_count(row.architecture), row.parameters);
    }
    const CalculusResult result = calculus(row.architecture, 1);
    EXPECT_EQ(result.dimension, row.nullity);
    EXPECT_GT(result.gap, kGap);
  }
}

TEST(Calculus, DependsOnTheArchitectureAlone) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Architecture architecture = random_architecture(seed);
    const CalculusResult first = calculus(architecture, 1);
    EXPECT_EQ(first.dimension, calculus(architecture, 2).dimension);
    EXPECT_GT(first.gap, kGap);
  }
}

// The nullity of the Jacobian of all outputs with respect to all parameters, by automatic
// differentiation in double precision at random parameters: {seed of random_architecture, nullity}.
TEST(Calculus, AgreesWithMeasuredNullities) {
  const std::vector<std::pair<std::uint64_t, std::int64_t>> measured = {
      {1, 37},    {3, 24},    {4, 33},    {7, 72},    {8, 192},   {9, 48},    {10, 76},
      {13, 49},   {14, 90},   {15, 34},   {20, 89},   {21, 211},  {22, 68},   {23, 20},
      {26, 27},   {29, 90},   {30, 66},   {32, 117},  {33, 158},  {35, 181},  {42, 47},
      {43, 157},  {44, 100},  {46, 26},   {47, 55},   {49, 28},   {51, 127},  {54, 53},
      {56, 61},   {59, 58},   {60, 169},  {62, 75},   {65, 39},   {67, 43},   {69, 67},
      {70, 42},   {72, 148},  {73, 151},  {74, 80},   {77, 44},   {78, 87},   {81, 20},
      {83, 56},   {85, 46},   {86, 63},   {87, 65},   {92, 143},  {93, 113},  {94, 152},
      {95, 56},   {99, 158},  {107, 85},  {108, 88},  {109, 133}, {113, 101}, {114, 34},
      {115, 65},  {116, 35},  {119, 97},  {121, 194}, {123, 93},  {124, 62},  {125, 98},
      {126, 98},  {128, 67},  {129, 149}, {131, 63},  {134, 37},  {135, 65},  {137, 39},
      {138, 65},  {141, 92},  {143, 55},  {145, 145}, {149, 22},  {152, 62},  {155, 74},
      {157, 75},  {161, 42},  {162, 38},  {163, 82},  {164, 67},  {165, 107}, {167, 60},
      {170, 74},  {171, 26},  {172, 93},  {173, 127}, {174, 32},  {175, 38},  {176, 41},
      {182, 123}, {184, 82},  {189, 72},  {190, 30},  {192, 68},  {194, 159}, {196, 28},
      {202, 24},  {205, 56},  {206, 122}, {208, 32},  {209, 32},  {211, 61},  {212, 85},
      {215, 44},  {221, 146}, {223, 33},  {227, 64},  {228, 117}, {229, 140}, {231, 102},
      {233, 92},  {234, 120}};
  for (const auto& [seed, nullity] : measured) {
    EXPECT_EQ(calculus(random_architecture(seed), 1).dimension, nullity) << "seed " << seed;
  }
}

TEST(Calculus, AWrongRuleIsNoticed) {
  const auto wrong = [](const std::string& name, Mistake mistake) {
    return calculus(known(name).architecture, 1, mistake).dimension - known(name).nullity;
  };
  EXPECT_EQ(wrong("llama", Mistake::rotary_forgotten), 188 - 140);
  EXPECT_NE(wrong("gpt2, tied", Mistake::centring_forgotten), 0);
  EXPECT_NE(wrong("bert", Mistake::centring_forgotten), 0);
  EXPECT_NE(wrong("llama, tied", Mistake::tie_forgotten), 0);
  EXPECT_EQ(wrong("gpt2, tied", Mistake::key_shift_forgotten), -2 * 2 * 4);
  EXPECT_EQ(wrong("llama", Mistake::key_shift_forgotten), 0);  // no key bias
}

TEST(Calculus, Experts) {
  const Change experts = [](Architecture& a) {
    a.layers = 1;
    a.kinds[0].ffn.experts = {.count = 3, .active = 2};
  };
  Architecture a = known("llama").architecture;
  a.layers = 1;
  const std::int64_t plain = calculus(a, 1).dimension;
  experts(a);
  const std::int64_t m = a.kinds[0].ffn.width;
  EXPECT_EQ(calculus(a, 1).dimension - plain, 2 * m + a.width);
  EXPECT_EQ(calculus(a, 1, Mistake::router_shift_forgotten).dimension - plain, 2 * m);
  a.kinds[0].ffn.experts.shared_width = 4;
  a.kinds[0].ffn.experts.shared_gate = true;
  EXPECT_EQ(calculus(a, 1).dimension - plain, 2 * m + a.width + 4);
}

TEST(Calculus, SigmoidRoutersAndWhatOnlySelects) {
  Architecture a = known("llama").architecture;
  a.layers = 1;
  Experts& experts = a.kinds[0].ffn.experts;
  experts = {.count = 4, .active = 2, .renormalised = true};
  const std::int64_t softmax = calculus(a, 1).dimension;
  experts.scoring = Scoring::sigmoid;
  EXPECT_EQ(calculus(a, 1).dimension, softmax - a.width);
  EXPECT_EQ(calculus(a, 1, Mistake::sigmoid_forgotten).dimension, softmax);
  experts.selection_bias = true;
  EXPECT_EQ(calculus(a, 1).dimension, softmax - a.width + 1);
  EXPECT_EQ(calculus(a, 1, Mistake::choice_forgotten).dimension, softmax - a.width + 4);
}

// h (d_n^2 + d_v^2) + d_r + [r (r - 1)/2 + r + 1] for each latent.
TEST(Calculus, Latents) {
  Architecture a = known("llama").architecture;
  a.layers = 1;
  a.vocabulary = 40;
  Attention& attention = a.kinds[0].attention;
  const std::int64_t of_heads =
      attention.kv_heads * (attention.qk_width + attention.v_width * attention.v_width);
  const std::int64_t rest = calculus(a, 1).dimension - of_heads;
  attention.heads = attention.kv_heads = 3;
  attention.qk_width = 5;
  attention.v_width = 2;
  attention.rotary_dims = 2;
  attention.rotary_frequencies = {0.7};
  attention.kv_latent = 4;
  const std::int64_t plain = 3 * (9 + 4) + 2 + (6 + 4 + 1);
  EXPECT_EQ(calculus(a, 1).dimension, rest + plain);
  EXPECT_GT(calculus(a, 1, Mistake::latent_norm_forgotten).dimension, rest + plain);
  attention.q_latent = 5;
  EXPECT_EQ(calculus(a, 1).dimension, rest + plain + (10 + 5 + 1));
  a.norm_eps = 0.01;  // the stream's length and both latents'
  EXPECT_EQ(calculus(a, 1).dimension, rest + plain + (10 + 5 + 1) - 3);
}

TEST(Calculus, SinksAndClamps) {
  Architecture a = known("llama").architecture;
  a.layers = 1;
  Layer& layer = a.kinds[0];
  layer.attention.biases = {.q = true, .k = true, .v = true, .o = true};
  const std::int64_t plain = calculus(a, 1).dimension;
  const std::int64_t values = layer.attention.kv_heads * layer.attention.v_width;
  layer.attention.sinks = true;  // rows no longer sum to one
  EXPECT_EQ(calculus(a, 1).dimension - plain, -values);
  EXPECT_EQ(calculus(a, 1, Mistake::sink_forgotten).dimension - plain, 0);
  layer.ffn.limit = 0.5;
  layer.ffn.up_offset = 1;
  EXPECT_EQ(calculus(a, 1).dimension - plain, -values - layer.ffn.width);
  EXPECT_EQ(calculus(a, 1, Mistake::clamp_forgotten).dimension - plain, -values);
  layer.ffn.experts = {.count = 3, .active = 2, .renormalised = true, .router_bias = true};
  layer.ffn.biases = {.gate = true, .up = true, .down = true};
  // theory2.md: a router's common column and the constant of its bias.
  EXPECT_EQ(calculus(a, 1).dimension - plain, -values - layer.ffn.width + a.width + 1);
}

// theory2.md, sections 6 and 10.
TEST(Calculus, OutputGatesAndDeltaNets) {
  Architecture a = known_architecture("llama");
  const std::int64_t plain = calculus(a, 1).dimension;
  const Attention& attention = a.kinds[0].attention;
  const std::int64_t heads = a.layers * attention.kv_heads, width = attention.v_width;
  a.kinds[0].attention.gate = true;
  EXPECT_EQ(calculus(a, 1).dimension - plain, -heads * width * (width - 1));
  EXPECT_EQ(calculus(a, 1, Mistake::gate_forgotten).dimension, plain);
  const std::int64_t qk = attention.kv_heads * attention.qk_width;
  const std::int64_t vo = attention.kv_heads * width * width;
  const DeltaNet delta{
      .key_heads = 2, .value_heads = 4, .key_width = 3, .value_width = 2, .kernel = 3};
  set_delta_net(a.kinds[0], delta);
  const std::int64_t channels = 2 * delta.keys() + delta.values(), gain = delta.value_width;
  EXPECT_EQ(calculus(a, 1).dimension - plain, a.layers * (channels + gain - qk - vo));
  EXPECT_EQ(calculus(a, 1, Mistake::kernel_forgotten).dimension - plain,
            a.layers * (gain - qk - vo));
}

TEST(Calculus, EpsilonRemembersLengths) {
  const Change epsilon = [](Architecture& a) { a.norm_eps = 0.01; };
  EXPECT_EQ(difference("llama", epsilon), -1);
  EXPECT_EQ(difference("gpt2, tied", epsilon), -1);
  EXPECT_EQ(difference("llama, qk norm", epsilon), -1 - 2 * (2 + 2));
  EXPECT_EQ(difference("bert", epsilon), -(2 * 2 + 1));
}

TEST(Calculus, RotaryCommutants) {
  // L h = 4 heads: GL(2, C) and GL(4, R) instead of two copies of C^x.
  EXPECT_EQ(difference("llama",
                       [](Architecture& a) {
                         a.kinds[0].attention.rotary_frequencies = {0.5, 0.5};
                       }),
            4 * (8 - 4));
  EXPECT_EQ(
      difference("llama",
                 [](Architecture& a) {
                   a.kinds[0].attention.rotary_frequencies = {std::numbers::pi, std::numbers::pi};
                 }),
      4 * (16 - 4));
  EXPECT_EQ(
      difference("llama",
                 [](Architecture& a) {
                   a.kinds[0].attention.rotary_frequencies = {0.5, 2 * std::numbers::pi - 0.5};
                 }),
      4 * (8 - 4));
}

TEST(Calculus, RelativeBias) {
  // One constant per head; bidirectional buckets have one row that no distance reaches.
  EXPECT_EQ(difference("llama, no positions",
                       [](Architecture& a) {
                         a.kinds[0].attention.positions = Positions::relative;
                         a.kinds[0].attention.relative_buckets = 8;
                         a.kinds[0].attention.relative_max_distance = 20;
                       }),
            2 * 2);
  EXPECT_EQ(difference("llama, no positions",
                       [](Architecture& a) {
                         a.kinds[0].attention.positions = Positions::relative;
                         a.causal = false;
                         a.kinds[0].attention.relative_buckets = 8;
                         a.kinds[0].attention.relative_max_distance = 20;
                       }),
            2 * 2 * 2);
}

TEST(Calculus, ConstantsBetweenTables) {
  EXPECT_EQ(difference("llama, learned positions", [](Architecture& a) { a.token_types = 2; }), 6);
  Architecture vision = known("llama, learned positions").architecture;
  vision.input = Input::vectors;
  vision.vocabulary = 0;
  vision.input_width = 8;
  vision.output = Output::classes;
  vision.classes = 9;
  const std::int64_t without = calculus(vision, 1).dimension;
  vision.class_token = true;
  EXPECT_EQ(calculus(vision, 1).dimension - without, 6);
  const std::int64_t unbiased = calculus(vision, 1).dimension;
  vision.input_bias = true;
  EXPECT_EQ(calculus(vision, 1).dimension - unbiased, 6);
}

TEST(Calculus, LogProbabilities) {
  const Change biased = [](Architecture& a) { a.head_bias = true; };
  EXPECT_EQ(difference("llama", biased), 0);
  EXPECT_EQ(difference("llama", [](Architecture& a) { a.log_probabilities = true; }), 6);
  EXPECT_EQ(difference("llama",
                       [](Architecture& a) {
                         a.log_probabilities = true;
                         a.head_bias = true;
                       }),
            6 + 1);
}

// An embedding norm in front of layer norms, D = 6, V = 30: rotations of the stream no longer pass,
// except along one curve of gains that keeps the D - 1 singular values of M diag(gain) M; every row
// of E scales by itself; the bias is invisible along 1.
TEST(Calculus, EmbeddingNorm) {
  EXPECT_EQ(
      difference("layer norm, gelu, rotary", [](Architecture& a) { a.embedding_norm = true; }),
      -10 + 1 + 30 + 1);
  // RMS: singular values are the gains themselves.
  EXPECT_EQ(difference("rms, gelu, rotary", [](Architecture& a) { a.embedding_norm = true; }),
            -15 + 30);
  // With epsilon a normed row is as free as a row: the gain is one more choice of coordinates.
  EXPECT_EQ(difference("rms, gelu, rotary",
                       [](Architecture& a) {
                         a.embedding_norm = true;
                         a.norm_eps = 0.01;
                       }),
            -1 + 6);
}

}  // namespace
}  // namespace regauge
