// Equal models arrive at the same numbers.
#include "regauge/equivalence/canon.h"

#include <gtest/gtest.h>

#include "arch/fixture.h"
#include "regauge/action/act.h"
#include "regauge/action/rewrite.h"
#include "regauge/base/error.h"
#include "symmetry/architectures.h"
#include "temporary.h"

namespace regauge {
namespace {

using testing::fixture;
using testing::Temporary;

Parameters<double> canonical(const Model& model, std::vector<std::string>& limits) {
  const ParameterSource source(model, model.architecture);
  const Symmetry symmetry = symmetry_of(model.architecture);
  const Canon form = canon(symmetry, source, Progress::silent());
  check_member(symmetry, form.element);
  limits.insert(limits.end(), form.limits.begin(), form.limits.end());
  Parameters<double> parameters;
  for (const auto& spec : parameter_specs(model.architecture)) {
    parameters[spec.name] = model.read<double>(spec.name);
  }
  act(symmetry, form.element, parameters);
  return parameters;
}

// The largest distance of any tensor, relative to its size; a single row counts against the
// matrices around it.
double distance(const Parameters<double>& a, const Parameters<double>& b) {
  double largest = 0;
  for (const auto& [name, tensor] : a) {
    const double size = std::max(tensor.norm(), tensor.rows() == 1 ? 1.0 : 0.0);
    if (size > 0) largest = std::max(largest, (tensor - b.at(name)).norm() / size);
  }
  return largest;
}

// The fixtures, and models of known and random architectures in F32.
std::map<std::string, std::filesystem::path> cases(const Temporary& folder) {
  std::map<std::string, std::filesystem::path> all;
  const auto add = [&](const std::string& name, const Architecture& a, std::uint64_t seed) {
    all[name] = folder / std::to_string(all.size());
    write_parameters<double>(all[name], "regauge", Format::safetensors, a,
                             random_parameters(a, seed), DType::f32);
  };
  for (const auto& known : known_architectures()) add(known.name, known.architecture, 3);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    add(std::to_string(seed), random_architecture(seed), seed);
  }
  // Once off, each for its own reason: a bias that must stay behind a head's transform, unread rows
  // of a relative table, a fixed table beside token types, and heads as wide as what a layer norm
  // leaves of the stream, whose two maps cancel each other in some direction.
  for (const std::uint64_t seed :
       {61, 68, 74, 77, 153, 155, 157, 174, 298, 427, 469, 363, 418, 478, 613, 619}) {
    add(std::to_string(seed), random_architecture(seed), seed);
  }
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    add("layer scales " + std::to_string(seed), layer_scale_architecture(seed), seed);
    add("vectors " + std::to_string(seed), vectors_architecture(seed), seed);
    add("norms of values " + std::to_string(seed), value_norm_architecture(seed), seed);
    add("norms of experts " + std::to_string(seed), own_norms_architecture(seed), seed);
    add("delta nets " + std::to_string(seed), delta_architecture(seed), seed);
  }
  for (const auto& name : testing::fixture_names()) all[name] = fixture(name);
  return all;
}

TEST(Canon, OfEqualModelsIsTheSame) {
  const Temporary folder("canon");
  int near = 0, warned = 0, refused = 0, number = 0;
  for (const auto& [name, path] : cases(folder)) {
    const Model model = Model::open(path);
    const ParameterSource source(model, model.architecture);
    const Symmetry symmetry = symmetry_of(model.architecture);
    for (const std::uint64_t seed : {1U, 2U}) {
      const auto moved = folder / ("moved-" + std::to_string(number++));
      const Element element = random_element(symmetry, seed);
      Rewrite(source, symmetry, element, Rewrite::same_as(model)).run(moved, Progress::silent());
      std::vector<std::string> limits;
      double off = 0;
      try {
        off = distance(canonical(model, limits), canonical(Model::open(moved), limits));
      } catch (const NoStandardForm&) {
        ++refused;  // no standard form: a constant behind a norm of another layer
        continue;
      }
      if (off < 1e-4) {
        ++near;
      } else {
        EXPECT_FALSE(limits.empty()) << name << ", element " << seed << ": off by " << off;
        ++warned;
      }
    }
  }
  EXPECT_GT(near, 200);
  EXPECT_LT(warned, 8);
  EXPECT_LT(refused, 24);
}

}  // namespace
}  // namespace regauge
