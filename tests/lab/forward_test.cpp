// The forward pass on libtorch against the plain one, and the taps against what they claim to be.
#include "regauge/lab/forward.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "arch/forward.h"
#include "inputs.h"
#include "regauge/base/error.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

// One sequence of a batch as the plain forward pass takes it.
Matrix<double> sequence(const Architecture& a, const lab::Batch& batch, std::int64_t number) {
  const std::int64_t first = number * batch.length;
  if (a.input == Input::vectors) {
    return batch.vectors.middleRows(first, batch.length).cast<double>();
  }
  Matrix<double> input(batch.length, 2 + batch.vectors.cols());
  if (batch.vectors.size() > 0 && !a.encodes_vectors()) {
    input.rightCols(batch.vectors.cols()) =
        batch.vectors.middleRows(first, batch.length).cast<double>();
  }
  for (std::int64_t t = 0; t < batch.length; ++t) {
    const auto i = static_cast<std::size_t>(first + t);
    input(t, 0) = static_cast<double>(batch.tokens[i]);
    input(t, 1) = batch.types.empty() ? 0 : static_cast<double>(batch.types[i]);
  }
  return input;
}

Matrix<double> source_of(const lab::Batch& batch, std::int64_t number) {
  if (batch.source.empty()) {  // vectors, or nothing
    const std::int64_t first = number * batch.source_length;
    return batch.vectors.middleRows(first, batch.source_length).cast<double>();
  }
  Matrix<double> source(batch.source_length, 1);
  for (std::int64_t t = 0; t < batch.source_length; ++t) {
    const auto i = static_cast<std::size_t>(number * batch.source_length + t);
    source(t, 0) = static_cast<double>(batch.source[i]);
  }
  return source;
}

double parity(const Architecture& a, std::uint64_t seed) {
  const auto parameters = random_parameters(a, seed);
  const lab::Batch batch = testing::random_batch(a, 3, seed);
  const Matrix<double> outputs = lab::forward(a, parameters, batch);
  double largest = 0;
  for (std::int64_t s = 0; s < batch.sequences; ++s) {
    const Matrix<double> expected =
        testing::forward(a, parameters, sequence(a, batch, s), source_of(batch, s));
    const Matrix<double> found = outputs.middleRows(s * expected.rows(), expected.rows());
    largest = std::max(largest,
                       (found - expected).cwiseAbs().maxCoeff() / expected.cwiseAbs().maxCoeff());
  }
  return largest;
}

TEST(Forward, EqualsThePlainOneOnTheKnownArchitectures) {
  for (const auto& known : known_architectures()) {
    EXPECT_LE(parity(known.architecture, 1), 1e-12) << known.name;
  }
}

TEST(Forward, EqualsThePlainOneOnRandomArchitectures) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Architecture a = random_architecture(seed);
    EXPECT_LE(parity(a, seed), 1e-11) << seed << " " << to_json(a).dump();
    const Architecture normed = output_norm_architecture(seed);
    EXPECT_LE(parity(normed, seed), 1e-11) << seed << " " << to_json(normed).dump();
    const Architecture constants = constants_architecture(seed);
    EXPECT_LE(parity(constants, seed), 1e-11) << seed << " " << to_json(constants).dump();
    const Architecture experts = experts_architecture(seed);
    EXPECT_LE(parity(experts, seed), 1e-11) << seed << " " << to_json(experts).dump();
    const Architecture vectors = vectors_architecture(seed);
    EXPECT_LE(parity(vectors, seed), 1e-11) << seed << " " << to_json(vectors).dump();
    const Architecture scales = layer_scale_architecture(seed);
    EXPECT_LE(parity(scales, seed), 1e-11) << seed << " " << to_json(scales).dump();
    const Architecture delta = delta_architecture(seed);
    EXPECT_LE(parity(delta, seed), 1e-11) << seed << " " << to_json(delta).dump();
    const Architecture values = value_norm_architecture(seed);
    EXPECT_LE(parity(values, seed), 1e-11) << seed << " " << to_json(values).dump();
    const Architecture norms = own_norms_architecture(seed);
    EXPECT_LE(parity(norms, seed), 1e-11) << seed << " " << to_json(norms).dump();
    const Architecture sinks = sinks_architecture(seed);
    EXPECT_LE(parity(sinks, seed), 1e-11) << seed << " " << to_json(sinks).dump();
    const Architecture frames = frames_architecture(seed);
    EXPECT_LE(parity(frames, seed), 1e-11) << seed << " " << to_json(frames).dump();
    const Architecture sounds = sounds_architecture(seed);
    EXPECT_LE(parity(sounds, seed), 1e-11) << seed << " " << to_json(sounds).dump();
    const Architecture mixed = mixed_architecture(seed);
    EXPECT_LE(parity(mixed, seed), 1e-11) << seed << " " << to_json(mixed).dump();
    const Architecture two = encoder_decoder(seed);
    EXPECT_LE(parity(two, seed), 1e-11) << seed << " " << to_json(two).dump();
  }
}

TEST(Forward, InFloat) {
  for (const auto& known : known_architectures()) {
    const Architecture& a = known.architecture;
    const auto parameters = random_parameters(a, 2);
    const auto narrow = cast<float>(parameters);
    const lab::Batch batch = testing::random_batch(a, 2, 2);
    const Matrix<double> wide = lab::forward(a, parameters, batch);
    const Matrix<double> found = lab::forward(a, narrow, batch).cast<double>();
    EXPECT_LE((found - wide).cwiseAbs().maxCoeff() / wide.cwiseAbs().maxCoeff(), 1e-4)
        << known.name;
  }
}

TEST(Forward, TapsAreWhatTheNextMapReads) {
  const Architecture a = known_architectures().front().architecture;
  const auto p = random_parameters(a, 1);
  Taps<double> taps;
  const Matrix<double> outputs = lab::forward(a, p, testing::random_batch(a, 2, 1), &taps);
  EXPECT_LE((taps.at("head.input") * p.at("head.weight") - outputs).norm(), 1e-12);
  const Matrix<double> between = taps.at("layers.0.attn.norm.input") +
                                 taps.at("layers.0.attn.heads") * p.at("layers.0.attn.o.weight");
  EXPECT_LE((between - taps.at("layers.0.ffn.norm.input")).norm(), 1e-12);
  const Matrix<double> after =
      between + taps.at("layers.0.ffn.hidden") * p.at("layers.0.ffn.down.weight");
  EXPECT_LE((after - taps.at("layers.1.attn.norm.input")).norm(), 1e-12);
  EXPECT_EQ(taps.size(), 5u * static_cast<std::size_t>(a.layers) + 2);
}

// Where each head attends, and what it makes of the values there.
TEST(Forward, PatternsMixTheValues) {
  const Architecture a = known_architectures().front().architecture;
  ASSERT_EQ(a.norm, Norm::rms);
  const auto p = random_parameters(a, 1);
  Taps<double> taps;
  const lab::Batch batch = testing::random_batch(a, 2, 1);
  lab::forward(a, p, batch, &taps);
  Matrix<double> x = taps.at("layers.0.attn.norm.input");
  x.array().colwise() /= (x.rowwise().squaredNorm() / static_cast<double>(a.width)).array().sqrt();
  x.array().rowwise() *= p.at("layers.0.attn.norm.gain").row(0).array();
  const Matrix<double> values = x * p.at("layers.0.attn.v.weight");
  const Matrix<double>& patterns = taps.at("layers.0.attn.patterns");
  const std::int64_t n = batch.length;
  ASSERT_EQ(patterns.cols(), a.kinds[0].attention.heads * n);
  for (std::int64_t s = 0; s < batch.sequences; ++s) {
    for (std::int64_t head = 0; head < a.kinds[0].attention.heads; ++head) {
      const Matrix<double> pattern = patterns.block(s * n, head * n, n, n);
      EXPECT_LE((pattern.rowwise().sum().array() - 1).abs().maxCoeff(), 1e-12);
      const std::int64_t kv = head / (a.kinds[0].attention.heads / a.kinds[0].attention.kv_heads);
      const Matrix<double> mixed = pattern * values.block(s * n, kv * a.kinds[0].attention.v_width,
                                                          n, a.kinds[0].attention.v_width);
      const Matrix<double> tapped =
          taps.at("layers.0.attn.heads")
              .block(s * n, head * a.kinds[0].attention.v_width, n, a.kinds[0].attention.v_width);
      EXPECT_LE((mixed - tapped).norm(), 1e-10);
    }
  }
}

TEST(Forward, RefusesWhatTheModelCannotTake) {
  const Architecture a = known_architectures().front().architecture;
  const auto p = random_parameters(a, 1);
  lab::Batch batch = testing::random_batch(a, 1, 1);
  batch.tokens[0] = a.vocabulary;
  EXPECT_THROW(lab::forward(a, p, batch), UsageError);
  batch = testing::random_batch(a, 1, 1);
  batch.tokens.pop_back();
  EXPECT_THROW(lab::forward(a, p, batch), UsageError);
  Architecture learned = a;
  learned.position_table = PositionTable::learned;
  learned.kinds[0].attention.positions = Positions::none;
  learned.kinds[0].attention.rotary_dims = 0;
  learned.kinds[0].attention.rotary_frequencies.clear();
  batch = testing::random_batch(learned, 1, 1);
  ++batch.length;
  batch.tokens.push_back(0);
  EXPECT_THROW(lab::forward(learned, random_parameters(learned, 1), batch), UsageError);
}

}  // namespace
}  // namespace regauge
