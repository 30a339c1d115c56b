// The single-token pass is the model itself on sequences of length one.
#include "align/weights/token_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "arch/forward.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

Parameters<double> layer_of(const Parameters<double>& all, std::int64_t layer) {
  const std::string prefix = fmt::format("layers.{}.", layer);
  Parameters<double> part;
  for (const auto& [name, value] : all) {
    if (layer < 0 ? !name.starts_with("layers.") : name.starts_with(prefix)) part[name] = value;
  }
  return part;
}

Matrix<double> by_stream(const Architecture& architecture, const Parameters<double>& parameters,
                         const std::vector<std::int64_t>& tokens) {
  const auto ends = layer_of(parameters, -1);
  TokenStream<double> stream(architecture, ends, tokens);
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer) {
    stream.advance(layer, layer_of(parameters, layer));
  }
  return stream.predictions(ends);
}

Matrix<double> by_forward(const Architecture& architecture, const Parameters<double>& parameters,
                          std::int64_t token) {
  Matrix<double> input = Matrix<double>::Zero(1, architecture.token_types > 0 ? 2 : 1);
  input(0, 0) = static_cast<double>(token);
  Matrix<double> logits = testing::forward(architecture, parameters, input, input);
  logits.array() -= logits.maxCoeff();
  logits = logits.array().exp();
  return logits / logits.sum();
}

void check(const std::string& name, const Architecture& architecture) {
  const auto parameters = random_parameters(architecture, 1);
  const std::vector<std::int64_t> tokens = {0, 1, architecture.vocabulary - 1};
  const Matrix<double> found = by_stream(architecture, parameters, tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Matrix<double> wanted = by_forward(architecture, parameters, tokens[i]);
    const auto row = found.row(static_cast<Eigen::Index>(i));
    EXPECT_LT((row - wanted.row(0)).cwiseAbs().maxCoeff(), 1e-12) << name << ", token " << i;
    EXPECT_GT((row.array() - row.mean()).abs().maxCoeff(), 1e-3) << name;  // they say something
  }
}

bool has_one(const Architecture& architecture) {
  return architecture.input == Input::tokens && architecture.output == Output::tokens;
}

TEST(TokenStream, IsTheModelOnSingleTokens) {
  int tested = 0;
  for (const auto& known : known_architectures()) {
    if (!has_one(known.architecture)) continue;
    check(known.name, known.architecture);
    ++tested;
  }
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Architecture architecture = random_architecture(seed);
    if (!has_one(architecture)) continue;
    check(to_json(architecture).dump(), architecture);
    ++tested;
  }
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Architecture architecture = layer_scale_architecture(seed);
    if (has_one(architecture)) check(to_json(architecture).dump(), architecture);
    const Architecture delta = delta_architecture(seed);
    if (has_one(delta)) check(to_json(delta).dump(), delta);
    const Architecture values = value_norm_architecture(seed);
    if (has_one(values)) check(to_json(values).dump(), values);
    const Architecture experts = own_norms_architecture(seed);
    if (has_one(experts)) check(to_json(experts).dump(), experts);
  }
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Architecture architecture = encoder_decoder(seed);
    check(to_json(architecture).dump(), architecture);
  }
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Architecture architecture = two_streams(seed);
    if (architecture.encoder_vocabulary == 0) check(to_json(architecture).dump(), architecture);
  }
  EXPECT_GE(tested, 40);
}

}  // namespace
}  // namespace regauge
