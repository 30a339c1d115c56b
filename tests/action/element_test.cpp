// Elements of a whole model are a group, and act is its left action.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>

#include "action/pull_back.h"
#include "numerics/dense.h"
#include "numerics/random_matrix.h"
#include "regauge/action/act.h"
#include "regauge/action/plan.h"
#include "regauge/base/error.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

std::vector<Architecture> many_architectures() {
  std::vector<Architecture> all;
  for (const auto& known : known_architectures()) all.push_back(known.architecture);
  for (std::uint64_t seed = 200; seed < 270; ++seed) all.push_back(random_architecture(seed));
  for (auto& a : full_turn_architectures(20)) all.push_back(std::move(a));
  return all;
}

double difference(const Parameters<double>& a, const Parameters<double>& b) {
  double largest = 0;
  for (const auto& [name, value] : a) {
    const Matrix<double>& other = b.at(name);
    const double scale = 1 + value.cwiseAbs().maxCoeff();
    largest = std::max(largest, (value - other).cwiseAbs().maxCoeff() / scale);
  }
  return largest;
}

Parameters<double> acted(const Symmetry& symmetry, const Element& element, Parameters<double> x) {
  act(symmetry, element, x);
  return x;
}

TEST(Elements, AreAGroup) {
  for (const auto& a : many_architectures()) {
    const Symmetry symmetry = symmetry_of(a);
    const Element g = random_element(symmetry, 1), h = random_element(symmetry, 2),
                  k = random_element(symmetry, 3);
    const auto product = [&](const Element& x, const Element& y) {
      return compose(symmetry, x, y);
    };
    EXPECT_LE(distance(symmetry, product(g, {}), g), 1e-12);
    EXPECT_LE(distance(symmetry, product({}, g), g), 1e-12);
    EXPECT_LE(distance(symmetry, product(g, inverse(symmetry, g)), {}), 1e-10);
    EXPECT_LE(distance(symmetry, product(product(g, h), k), product(g, product(h, k))), 1e-10);
    EXPECT_NO_THROW(check_member(symmetry, product(g, h)));
  }
}

// By parts of an element, so that followers and vectors of shifts have to move with what they
// hang on.
TEST(Elements, AreComposedStepByStep) {
  for (const auto& a : many_architectures()) {
    const Symmetry symmetry = symmetry_of(a);
    const Element g = random_element(symmetry, 1), h = random_element(symmetry, 2);
    std::vector<Element> steps = {g};
    for (const Category category : all_categories()) {
      steps.push_back(random_element(symmetry, 1, {category}));
    }
    for (const Element& step : steps) {
      Element moved = h;
      compose_onto(symmetry, step, moved);
      EXPECT_LE(distance(symmetry, moved, compose(symmetry, step, h)), 1e-10);
    }
  }
}

TEST(Elements, ActFromTheLeft) {
  for (const auto& a : many_architectures()) {
    const Symmetry symmetry = symmetry_of(a);
    const auto x = random_parameters(a, 4);
    const Element g = random_element(symmetry, 1), h = random_element(symmetry, 2);
    const auto one_by_one = acted(symmetry, g, acted(symmetry, h, x));
    EXPECT_LE(difference(acted(symmetry, compose(symmetry, g, h), x), one_by_one), 1e-8)
        << to_json(a).dump();
    EXPECT_LE(difference(acted(symmetry, inverse(symmetry, g), acted(symmetry, g, x)), x), 1e-8)
        << to_json(a).dump();
    // The wrong order is another element, unless all that is left commutes.
    if (a.layers > 1) {
      EXPECT_GT(difference(acted(symmetry, compose(symmetry, h, g), x), one_by_one), 1e-3);
    }
  }
}

// A random element without its blocks moves the same tensors by maps of the same size.
TEST(Elements, HaveAShapeOfTheirOwn) {
  for (const auto& a : many_architectures()) {
    const Symmetry symmetry = symmetry_of(a);
    for (const auto& only : {all_categories(), std::set{Category::heads, Category::vo}}) {
      const Element drawn = random_element(symmetry, 1, only);
      const Element outline = random_element(symmetry, 1, only, Blocks::identity);
      EXPECT_NO_THROW(check_member(symmetry, outline));
      ASSERT_EQ(drawn.maps.size(), outline.maps.size());
      for (const auto& [name, map] : drawn.maps) {
        EXPECT_EQ(map.blocks().size(), outline.maps.at(name).blocks().size()) << name;
      }
      const Plan plan = make_plan(symmetry, drawn), shape = make_plan(symmetry, outline);
      for (const auto& spec : parameter_specs(a)) {
        EXPECT_EQ(plan.touches(spec.name), shape.touches(spec.name)) << spec.name;
      }
    }
  }
}

// Half turns and exchanges of coordinates under a QK-norm, all of them against what they do to the
// parameters.
TEST(Elements, ComponentsAreOfWhatActs) {
  Architecture a = known_architectures().front().architecture;
  a.kinds[0].attention.qk_norm = QkNorm::heads;
  a.layers = 1;
  const Symmetry symmetry = symmetry_of(a);
  const auto x = random_parameters(a, 1);
  std::set<std::vector<double>> images;
  for (int k = 0; k < 16; ++k) {
    for (int turns = 0; turns < 16; ++turns) {
      Element element;
      Matrix<double> signs = Matrix<double>::Zero(8, 4), pairs = Matrix<double>::Zero(4, 4);
      for (const int i : {0, 1, 2, 3, 4, 5, 6, 7}) signs(i, i % 4) = (k >> i / 2) % 2 == 0 ? 1 : -1;
      for (const int pair : {0, 1}) {
        const int turn = pair == 0 ? turns % 4 : turns / 4;
        const double c[] = {1, 0, -1, 0}, s[] = {0, 1, 0, -1};
        pairs.block(2 * pair, 2 * pair, 2, 2) << c[turn], s[turn], -s[turn], c[turn];
      }
      element.maps["layers.0.attn.turns"] = BlockMap<double>(2, 4, {}, signs);
      element.maps["layers.0.attn.qk_gain"] = BlockMap<double>(1, 4, {}, pairs);
      EXPECT_NO_THROW(check_member(symmetry, element));
      std::vector<double> image;
      for (const auto& [name, value] : acted(symmetry, element, x)) {
        image.insert(image.end(), value.data(), value.data() + value.size());
      }
      images.insert(image);
    }
  }
  double others = 0;
  for (const auto& space : symmetry.spaces) {
    const bool ours = space.name == "layers.0.attn.turns" || space.name == "layers.0.attn.qk_gain";
    if (!ours) others += space.log2_components();
  }
  EXPECT_EQ(images.size(), 64U);
  EXPECT_NEAR(symmetry.log2_components() - others, std::log2(images.size()), 1e-9);
}

TEST(Elements, SurviveAFile) {
  const auto path = std::filesystem::temp_directory_path() / "regauge-element-test.safetensors";
  for (const auto& known : known_architectures()) {
    const Symmetry symmetry = symmetry_of(known.architecture);
    const Element g = random_element(symmetry, 1);
    std::filesystem::remove(path);
    save_element(symmetry, g, path);
    EXPECT_EQ(distance(symmetry, load_element(symmetry, path), g), 0) << known.name;
  }
  const Symmetry other = symmetry_of(known_architectures().front().architecture);
  EXPECT_THROW(load_element(other, path), UsageError);
  std::filesystem::remove(path);
  save_element(other, random_element(other, 1), path);
  Architecture a = other.architecture;
  for (auto& frequency : a.kinds[0].attention.rotary_frequencies)
    frequency = static_cast<float>(frequency * (1 + 1e-9));
  EXPECT_NO_THROW(load_element(symmetry_of(a), path));  // as another format rounds it
  a.kinds[0].attention.rotary_frequencies.back() *= 1.001;
  EXPECT_THROW(load_element(symmetry_of(a), path), UsageError);
  a = other.architecture;
  a.norm_eps = 1e-9;
  EXPECT_THROW(load_element(symmetry_of(a), path), UsageError);
  std::filesystem::remove(path);
}

TEST(Elements, OutsidersAreRefused) {
  const Architecture a = known_architectures().front().architecture;
  const Symmetry symmetry = symmetry_of(a);
  Element element = random_element(symmetry, 1);
  Random random(1, "outsider");
  element.maps["layers.0.attn.qk"] =
      BlockMap<double>(a.kinds[0].attention.kv_heads, a.kinds[0].attention.qk_width, {},
                       random_invertible(a.kinds[0].attention.qk_width, random)
                           .replicate(a.kinds[0].attention.kv_heads, 1));
  EXPECT_THROW(check_member(symmetry, element), UsageError);
  element = {};
  element.maps["layers.9.attn.qk"] =
      BlockMap<double>(a.kinds[0].attention.kv_heads, a.kinds[0].attention.qk_width);
  EXPECT_THROW(check_member(symmetry, element), UsageError);
  EXPECT_THROW(compose(symmetry, element, {}), UsageError);
  Parameters<double> parameters = random_parameters(a, 1);
  EXPECT_THROW(act(symmetry, element, parameters), UsageError);
  element = {};
  element.shifts["layers.0.attn.k.constant"] = Matrix<double>::Zero(1, 3);
  EXPECT_THROW(act(symmetry, element, parameters), UsageError);
}

// Near sums of bias/gain that vanish the action is too curved for finite differences.
bool constants_pass_easily(const Symmetry& symmetry, const Parameters<double>& parameters) {
  for (const auto& [name, site] : symmetry.norms) {
    if (site.bias.empty()) continue;
    if (std::abs(parameters.at(site.bias).cwiseQuotient(parameters.at(site.gain())).sum()) < 0.3) {
      return false;
    }
  }
  return true;
}

// L(theta) = sum of c . sin(theta), whose gradient is known, along exp(e X).
TEST(PullBack, AgreesWithFiniteDifferences) {
  int tested = 0;
  for (const auto& a : many_architectures()) {
    const Symmetry symmetry = symmetry_of(a);
    const auto x = random_parameters(a, 5);
    if (!constants_pass_easily(symmetry, x)) continue;
    ++tested;
    const auto coefficients = random_parameters(a, 6);
    Parameters<double> gradient;
    for (const auto& [name, value] : x) {
      gradient[name] = coefficients.at(name).cwiseProduct(value.array().cos().matrix());
    }
    const auto loss = [&](const Parameters<double>& p) {
      double sum = 0;
      for (const auto& [name, value] : p) {
        sum += coefficients.at(name).cwiseProduct(value.array().sin().matrix()).sum();
      }
      return sum;
    };
    const Tangent slope = pull_back(symmetry, x, gradient);
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      Tangent direction = random_tangent(symmetry, seed);
      const double expected = inner_product(slope, direction);
      const auto at = [&](double e) {
        Tangent scaled = direction;
        for (auto& [name, blocks] : scaled.maps) blocks *= e;
        for (auto& [name, vector] : scaled.shifts) vector *= e;
        return loss(acted(symmetry, retract(symmetry, scaled), x));
      };
      const double e = 1e-4;  // fourth order differences
      const double measured = (8 * (at(e) - at(-e)) - (at(2 * e) - at(-2 * e))) / (12 * e);
      EXPECT_NEAR(measured, expected, 1e-6 * (1 + std::abs(expected))) << to_json(a).dump();
    }
  }
  EXPECT_GT(tested, 50);
}

}  // namespace
}  // namespace regauge
