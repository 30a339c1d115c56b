// The heart of it: an element changes the numbers and not the function.
#include <gtest/gtest.h>

#include "arch/forward.h"
#include "controls.h"
#include "regauge/action/act.h"
#include "regauge/action/fold.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

using testing::forward;

Matrix<double> random_input(const Architecture& a, std::uint64_t seed) {
  Random random(seed, "input");
  const std::int64_t table = a.has_position_table() ? a.max_positions : 6;
  const std::int64_t length = table - (a.class_token ? 1 : 0);
  if (a.input == Input::vectors) {
    Matrix<double> input(length, a.input_width);
    for (auto& entry : input.reshaped()) entry = random.normal();
    return input;
  }
  Matrix<double> input(length, 2);
  for (std::int64_t t = 0; t < length; ++t) {
    input(t, 0) = static_cast<double>(random.below(a.vocabulary));
    input(t, 1) = a.token_types > 0 ? static_cast<double>(random.below(a.token_types)) : 0;
  }
  return input;
}

Matrix<double> function(const Architecture& a, const Parameters<double>& parameters,
                        std::uint64_t seed) {
  Matrix<double> y = forward(a, parameters, random_input(a, seed));
  if (a.log_probabilities) {
    for (Eigen::Index t = 0; t < y.rows(); ++t) {
      const double largest = y.row(t).maxCoeff();
      y.row(t).array() -= largest + std::log((y.row(t).array() - largest).exp().sum());
    }
  }
  return y;
}

// The largest change of an output, relative to the outputs' spread.
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
  for (auto& a : full_turn_architectures(20)) all.push_back(std::move(a));
  return all;
}

// Elements that blow up a nearly singular constant (bias/gain summing to almost 0) are not what is
// tested here.
bool well_conditioned(const Symmetry& symmetry, const Parameters<double>& parameters) {
  for (const auto& [name, site] : symmetry.norms) {
    if (site.bias.empty()) continue;
    const double sum = parameters.at(site.bias).cwiseQuotient(parameters.at(site.gain())).sum();
    if (std::abs(sum) < 0.05) return false;
  }
  return true;
}

TEST(Invariance, WholeGroup) {
  int tested = 0;
  for (const auto& a : architectures()) {
    const Symmetry symmetry = symmetry_of(a);
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const auto parameters = random_parameters(a, seed);
      if (!well_conditioned(symmetry, parameters)) continue;
      auto moved = parameters;
      act(symmetry, random_element(symmetry, seed), moved);
      EXPECT_LE(change(a, parameters, moved), 1e-9) << seed << " " << to_json(a).dump();
      ++tested;
    }
  }
  EXPECT_GT(tested, 400);
}

// 16-bit checkpoints are worked on in float.
TEST(Invariance, InFloat) {
  for (const auto& known : known_architectures()) {
    const Architecture& a = known.architecture;
    const Symmetry symmetry = symmetry_of(a);
    const auto parameters = random_parameters(a, 3);
    if (!well_conditioned(symmetry, parameters)) continue;
    Parameters<float> narrow;
    for (const auto& [name, value] : parameters) narrow[name] = value.cast<float>();
    act(symmetry, random_element(symmetry, 3), narrow);
    Parameters<double> moved;
    for (const auto& [name, value] : narrow) moved[name] = value.cast<double>();
    EXPECT_LE(change(a, parameters, moved), 5e-4) << known.name;
  }
}

TEST(Invariance, EachFactorAloneMovesSomething) {
  std::map<Category, int> moving;
  for (const auto& a : architectures()) {
    const Symmetry symmetry = symmetry_of(a);
    const auto parameters = random_parameters(a, 7);
    if (!well_conditioned(symmetry, parameters)) continue;
    for (const Category category : all_categories()) {
      auto moved = parameters;
      act(symmetry, random_element(symmetry, 5, {category}), moved);
      EXPECT_LE(change(a, parameters, moved), 1e-9)
          << category_name(category) << " " << to_json(a).dump();
      moving[category] += moved != parameters ? 1 : 0;
    }
  }
  for (const Category category : all_categories()) EXPECT_GT(moving[category], 5);
}

TEST(Invariance, Fold) {
  for (const auto& a : architectures()) {
    const Symmetry symmetry = symmetry_of(a);
    const auto parameters = random_parameters(a, 11);
    const auto read = [&](const std::string& name) { return parameters.at(name); };
    const Element element = fold_element(symmetry, read, {}, Progress::silent());
    auto folded = parameters;
    act(symmetry, element, folded);
    EXPECT_LE(change(a, parameters, folded), 1e-9) << to_json(a).dump();
    for (const auto& [name, site] : symmetry.norms) {
      if (symmetry.find_space(name) == nullptr) continue;
      EXPECT_LE((folded.at(site.gain()).array() - 1).abs().maxCoeff(), 1e-12);
    }
    const bool centred = a.norm == Norm::layer;
    const double mean = folded.at("layers.0.attn.o.weight").rowwise().mean().cwiseAbs().maxCoeff();
    EXPECT_EQ(mean < 1e-12, centred);
  }
}

TEST(NegativeControls, AreSeen) {
  for (const auto& known : known_architectures()) {
    for (const auto& control : testing::negative_controls()) {
      const Architecture& a = known.architecture;
      if (!control.concerns(a)) continue;
      const auto parameters = random_parameters(a, 1);
      auto changed = parameters;
      control.apply(a, changed);
      EXPECT_GT(change(a, parameters, changed), 1e-3) << known.name << ": " << control.name;
    }
  }
}

}  // namespace
}  // namespace regauge
