// The heart of it once more, judged by libtorch: an element changes the numbers and not the
// function; what is no symmetry is seen.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "action/controls.h"
#include "inputs.h"
#include "regauge/action/act.h"
#include "regauge/lab/forward.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

constexpr int kElements = 20;

// The outputs of one model, and how far another is from them, relative to their spread.
class Judge {
 public:
  Judge(const Architecture& architecture, const Parameters<double>& parameters)
      : architecture_(architecture),
        batch_(testing::random_batch(architecture, 4, 1)),
        outputs_(outputs(parameters)) {}

  double change(const Parameters<double>& parameters) const {
    return (outputs(parameters) - outputs_).cwiseAbs().maxCoeff() / outputs_.cwiseAbs().maxCoeff();
  }

 private:
  Matrix<double> outputs(const Parameters<double>& parameters) const {
    Matrix<double> y = lab::forward(architecture_, parameters, batch_);
    if (architecture_.log_probabilities) {
      y.colwise() -= y.array().exp().rowwise().sum().log().matrix().eval();
    }
    return y;
  }

  Architecture architecture_;
  lab::Batch batch_;
  Matrix<double> outputs_;
};

// The known ones, and sixty drawn from every switch.
std::vector<Architecture> architectures() {
  std::vector<Architecture> all;
  for (const auto& known : known_architectures()) all.push_back(known.architecture);
  for (std::uint64_t seed = 1000; seed < 1060; ++seed) all.push_back(random_architecture(seed));
  for (std::uint64_t seed = 1000; seed < 1012; ++seed) all.push_back(router_architecture(seed));
  for (std::uint64_t seed = 1000; seed < 1012; ++seed) all.push_back(latents_architecture(seed));
  for (std::uint64_t seed = 1000; seed < 1012; ++seed)
    all.push_back(layer_scale_architecture(seed));
  for (std::uint64_t seed = 1000; seed < 1012; ++seed) all.push_back(vectors_architecture(seed));
  for (std::uint64_t seed = 1000; seed < 1012; ++seed) all.push_back(delta_architecture(seed));
  for (std::uint64_t seed = 1000; seed < 1012; ++seed) all.push_back(value_norm_architecture(seed));
  for (std::uint64_t seed = 1000; seed < 1012; ++seed) all.push_back(own_norms_architecture(seed));
  for (std::uint64_t seed = 1000; seed < 1012; ++seed) all.push_back(table_architecture(seed));
  return all;
}

// Constants that some elements divide by (the sum of bias / gain of a norm) are not almost 0.
Parameters<double> generic_parameters(const Architecture& a, const Symmetry& symmetry) {
  for (std::uint64_t seed = 1;; ++seed) {
    auto parameters = random_parameters(a, seed);
    bool generic = true;
    for (const auto& [name, site] : symmetry.norms) {
      if (site.bias.empty()) continue;
      const double sum = parameters.at(site.bias).cwiseQuotient(parameters.at(site.gain())).sum();
      generic = generic && std::abs(sum) > 0.2;
    }
    if (generic) return parameters;
  }
}

class Invariance : public ::testing::TestWithParam<int> {};

TEST_P(Invariance, OfTheWholeGroupAndOfEachFactorAlone) {
  const Architecture a = architectures()[static_cast<std::size_t>(GetParam())];
  const Symmetry symmetry = symmetry_of(a);
  const auto parameters = generic_parameters(a, symmetry);
  const Judge judge(a, parameters);
  EXPECT_EQ(judge.change(parameters), 0);
  for (std::uint64_t seed = 0; seed < kElements; ++seed) {
    auto moved = parameters;
    act(symmetry, random_element(symmetry, seed), moved);
    EXPECT_NE(moved, parameters);
    EXPECT_LE(judge.change(moved), 1e-9) << seed << " " << to_json(a).dump();
    for (const Category category : all_categories()) {
      moved = parameters;
      act(symmetry, random_element(symmetry, seed, {category}), moved);
      EXPECT_LE(judge.change(moved), 1e-9)
          << seed << " " << category_name(category) << " " << to_json(a).dump();
      const bool acts = std::ranges::any_of(symmetry.spaces, [&](const Space& space) {
        return space.category == category && space.dimension() > 0;
      });
      EXPECT_TRUE(!acts || moved != parameters) << category_name(category) << to_json(a).dump();
    }
  }
}

TEST(NegativeControls, AreSeen) {
  std::map<std::string, int> tried;
  for (const auto& a : architectures()) {
    const auto parameters = generic_parameters(a, symmetry_of(a));
    const Judge judge(a, parameters);
    for (const auto& control : testing::negative_controls()) {
      if (!control.concerns(a)) continue;
      auto changed = parameters;
      control.apply(a, changed);
      EXPECT_GT(judge.change(changed), 1e-3) << control.name << " " << to_json(a).dump();
      ++tried[control.name];
    }
  }
  for (const auto& control : testing::negative_controls()) EXPECT_GT(tried[control.name], 0);
}

INSTANTIATE_TEST_SUITE_P(Architectures, Invariance,
                         ::testing::Range(0, static_cast<int>(architectures().size())));

}  // namespace
}  // namespace regauge
