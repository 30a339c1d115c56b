#include "function.h"

#include "arch/forward.h"
#include "symmetry/architectures.h"

namespace regauge::testing {
namespace {

Matrix<double> random_input(const Architecture& a, std::uint64_t seed, const char* name,
                            std::int64_t positions, std::int64_t vocabulary) {
  Random random(seed, name);
  const std::int64_t table = a.has_position_table() ? a.max_positions : positions;
  const Attention& first = a.kinds.front().attention;
  const bool square = first.grid && first.positions == Positions::rotary;
  std::int64_t length = square ? 9 : table - a.placed_rows();
  if (first.grid && !square) length = a.max_positions - a.placed_rows();
  if (a.input == Input::vectors) {
    while (a.encoded_positions(length) < positions && !a.convolutions.empty()) ++length;
    Matrix<double> input(length, a.input_width);
    for (auto& entry : input.reshaped()) entry = random.normal();
    return input;
  }
  const bool vectors = a.input_width > 0 && !a.encodes_vectors();
  Matrix<double> input(length, 2 + a.vector_width());
  for (auto& entry : input.reshaped()) entry = vectors ? random.normal() : 0;
  for (std::int64_t t = 0; t < length; ++t) {
    input(t, 0) = static_cast<double>(random.below(vocabulary));
    if (vectors && t % 3 == 1) input(t, 0) = -1;
    input(t, 1) = a.token_types > 0 ? static_cast<double>(random.below(a.token_types)) : 0;
  }
  return input;
}

// As many as reach every row of the encoder's position table.
Matrix<double> random_frames(const Architecture& a, std::uint64_t seed) {
  Random random(seed, "frames");
  std::int64_t length = 1;
  while (a.encoded_positions(length + 1) <= a.source_positions()) ++length;
  Matrix<double> frames(length, a.input_width);
  for (auto& entry : frames.reshaped()) entry = random.normal();
  return frames;
}

Matrix<double> function(const Architecture& a, const Parameters<double>& parameters,
                        std::uint64_t seed) {
  Matrix<double> source;
  if (a.encodes_vectors()) {
    source = random_frames(a, seed);
  } else if (a.encoder_layers > 0) {
    source = random_input(a, seed, "source", 5, a.source_vocabulary());
  }
  for (const auto& beside : a.beside) source = random_input(beside, seed, "beside", 6, 0);
  const Matrix<double> input = random_input(a, seed, "input", 6, a.vocabulary);
  Matrix<double> y = forward(a, parameters, input, source);
  if (a.log_probabilities && a.output.list().size() == 1) {
    for (Eigen::Index t = 0; t < y.rows(); ++t) {
      const double largest = y.row(t).maxCoeff();
      y.row(t).array() -= largest + std::log((y.row(t).array() - largest).exp().sum());
    }
  }
  return y;
}

}  // namespace

double change(const Architecture& a, const Parameters<double>& before,
              const Parameters<double>& after) {
  double largest = 0;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Matrix<double> x = function(a, before, seed), y = function(a, after, seed);
    largest = std::max(largest, (x - y).cwiseAbs().maxCoeff() / x.cwiseAbs().maxCoeff());
  }
  return largest;
}

std::vector<Architecture> architectures() {
  std::vector<Architecture> all;
  for (const auto& known : known_architectures()) all.push_back(known.architecture);
  for (std::uint64_t seed = 0; seed < 120; ++seed) all.push_back(random_architecture(seed));
  for (std::uint64_t seed = 0; seed < 40; ++seed) all.push_back(mixed_architecture(seed));
  for (std::uint64_t seed = 0; seed < 40; ++seed) all.push_back(output_norm_architecture(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(constants_architecture(seed));
  for (std::uint64_t seed = 0; seed < 40; ++seed) all.push_back(experts_architecture(seed));
  for (std::uint64_t seed = 0; seed < 80; ++seed) all.push_back(outputs_architecture(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(encoder_decoder(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(two_streams(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(frames_architecture(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(sounds_architecture(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(layer_scale_architecture(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(vectors_architecture(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(delta_architecture(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(encoder_architecture(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(bare_architecture(seed));
  for (std::uint64_t seed = 0; seed < 80; ++seed) all.push_back(vision_architecture(seed));
  for (std::uint64_t seed = 0; seed < 30; ++seed) all.push_back(protein_architecture(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(value_norm_architecture(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(own_norms_architecture(seed));
  for (std::uint64_t seed = 0; seed < 60; ++seed) all.push_back(table_architecture(seed));
  for (const bool siglip : {false, true}) all.push_back(two_towers(siglip));
  for (auto& a : full_turn_architectures(20)) all.push_back(std::move(a));
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    all.push_back(router_architecture(seed));
    all.push_back(latents_architecture(seed));
  }
  return all;
}

bool well_conditioned(const Symmetry& symmetry, const Parameters<double>& parameters) {
  for (const auto& [name, site] : symmetry.norms) {
    if (site.bias.empty()) continue;
    const double sum = parameters.at(site.bias).cwiseQuotient(parameters.at(site.gain())).sum();
    if (std::abs(sum) < 0.05) return false;
  }
  return true;
}

}  // namespace regauge::testing
