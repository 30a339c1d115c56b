// B = g A, with noise and without: what was planted is found again.
#include <gtest/gtest.h>

#include "action/function.h"
#include "arch/fixture.h"
#include "regauge/action/act.h"
#include "regauge/action/standard_form.h"
#include "regauge/align/align.h"
#include "regauge/base/error.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

using testing::change;
using testing::fixture;
using testing::well_conditioned;

TensorReader reader(const Parameters<double>& parameters) {
  return [&parameters](const std::string& name) -> AnyMatrix { return parameters.at(name); };
}

// The largest difference of any tensor, relative to its size.
double difference(const Parameters<double>& a, const Parameters<double>& b) {
  double largest = 0;
  for (const auto& [name, tensor] : a) {
    const double size = tensor.norm() + 1e-3;
    largest = std::max(largest, (tensor - b.at(name)).norm() / size);
  }
  return largest;
}

using Method = Alignment (*)(const Symmetry&, const TensorReader&, const TensorReader&,
                             const AlignOptions&, Progress&);

Parameters<double> aligned(Method method, const Symmetry& symmetry, const Parameters<double>& a,
                           const Parameters<double>& b, const AlignOptions& options = {}) {
  const Alignment found = method(symmetry, reader(a), reader(b), options, Progress::silent());
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
  for (const auto& known : known_architectures()) {
    const Symmetry symmetry = symmetry_of(known.architecture);
    const auto a = random_parameters(known.architecture, 1);
    if (!well_conditioned(symmetry, a)) continue;
    const auto b = planted(symmetry, a, random_element(symmetry, 2), 0, 0);
    EXPECT_LE(difference(a, aligned(align_weights, symmetry, a, b)), kExact) << known.name;
  }
}

TEST(Weights, FindAPlantedElementOfRandomArchitectures) {
  int tested = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Architecture architecture = random_architecture(seed);
    const Symmetry symmetry = symmetry_of(architecture);
    const auto a = random_parameters(architecture, 1);
    std::vector<std::string> limits;
    standard_form(reader(a), symmetry, 1, limits, Progress::silent());
    if (!well_conditioned(symmetry, a) || !limits.empty()) continue;
    const auto b = planted(symmetry, a, random_element(symmetry, 2), 0, 0);
    EXPECT_LE(difference(a, aligned(align_weights, symmetry, a, b)), kExact)
        << seed << " " << to_json(architecture).dump();
    ++tested;
  }
  EXPECT_GE(tested, 25);
}

class Fixtures : public ::testing::TestWithParam<std::string> {};

TEST_P(Fixtures, GiveBackAPlantedElement) {
  const Model model = Model::open(fixture(GetParam()));
  const Symmetry symmetry = symmetry_of(model.architecture);
  const auto a = read_parameters(model);
  const auto b = planted(symmetry, a, random_element(symmetry, 3), 0, 0);
  EXPECT_LE(difference(a, aligned(align_weights, symmetry, a, b)), kExact);
}

INSTANTIATE_TEST_SUITE_P(Every, Fixtures, ::testing::ValuesIn(testing::fixture_names()),
                         testing::test_name);

TEST(TwoStage, FindsAPlantedElementOfItsOwnGroup) {
  for (const auto& known : known_architectures()) {
    if (known.architecture.qk_norm) continue;
    const Symmetry symmetry = symmetry_of(known.architecture);
    const auto a = random_parameters(known.architecture, 1);
    const auto b =
        planted(symmetry, a,
                random_element(symmetry, 2, {Category::heads, Category::qk, Category::vo}), 0, 0);
    EXPECT_LE(difference(a, aligned(align_two_stage, symmetry, a, b)), 1e-3) << known.name;
  }
}

// Whatever was found: B computes what it computed.
TEST(EveryMethod, KeepsTheFunctionOfUnrelatedModels) {
  for (const auto& known : known_architectures()) {
    const Symmetry symmetry = symmetry_of(known.architecture);
    const auto a = random_parameters(known.architecture, 1);
    const auto b = random_parameters(known.architecture, 2);
    if (!well_conditioned(symmetry, a) || !well_conditioned(symmetry, b)) continue;
    for (const Method method : {align_two_stage, align_weights}) {
      EXPECT_LE(change(known.architecture, b, aligned(method, symmetry, a, b)), 1e-7) << known.name;
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
  EXPECT_THROW(Scope("everything"), UsageError);
  EXPECT_THROW(Scope("attention:x"), UsageError);
}

}  // namespace
}  // namespace regauge
