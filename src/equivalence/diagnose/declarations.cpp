#include "declarations.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

#include "regauge/base/error.h"
#include "regauge/equivalence/compare.h"

namespace regauge {
namespace {

bool same_tensors(const Architecture& a, const Architecture& b) {
  const auto left = parameter_specs(a), right = parameter_specs(b);
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const ParameterSpec& x, const ParameterSpec& y) {
                      return x.name == y.name && x.rows == y.rows && x.cols == y.cols;
                    });
}

// The base of frequencies theta^(-2b/dims); 0 if they are of another form.
double base_of(const std::vector<double>& frequencies) {
  if (frequencies.size() < 2 || std::abs(frequencies[0] - 1) > 1e-6) return 0;
  const auto dims = static_cast<std::int64_t>(2 * frequencies.size());
  const double theta = std::pow(frequencies[1], -static_cast<double>(dims) / 2);
  return same_value(nlohmann::json(rotary_frequencies(dims, theta)), nlohmann::json(frequencies))
             ? theta
             : 0;
}

std::string rope_difference(const std::vector<double>& a, const std::vector<double>& b) {
  const double base_a = base_of(a), base_b = base_of(b);
  if (base_a > 0 && base_b > 0) {
    return fmt::format("the rope base is {:.6g} in B's config, {:.6g} in A's", base_b, base_a);
  }
  bool one_factor = a.size() == b.size() && !a.empty();
  for (std::size_t i = 0; one_factor && i < a.size(); ++i) {
    one_factor = std::abs(a[i] / b[i] - a[0] / b[0]) < 1e-6 * std::abs(a[0] / b[0]);
  }
  if (one_factor) {
    return fmt::format("B's config rotates all pairs {:.6g} times as fast as A's", b[0] / a[0]);
  }
  return "the rope scaling of B's config is not that of A's";
}

}  // namespace

std::optional<Architecture> declared_as(const Architecture& a, const Architecture& b) {
  Architecture result = a;
  result.tied = b.tied;
  result.head_bias = b.head_bias;
  if (a.layers != b.layers) return std::nullopt;
  std::vector<Layer> layers;
  for (std::int64_t n = 0; n < a.layers; ++n) {
    layers.push_back(a.layer(n));
    layers.back().attention.biases = b.layer(n).attention.biases;
    layers.back().ffn.biases = b.layer(n).ffn.biases;
  }
  result.set_layers(layers);
  result.norm_bias = b.norm_bias;
  result.input_bias = b.input_bias;
  if (!a.has_position_table()) result.max_positions = b.max_positions;
  if (!same_tensors(result, b) || !problems_of(result).empty()) return std::nullopt;
  return result;
}

Model read_as(const Model& model, const Architecture& architecture) {
  if (architecture == model.architecture) return model;
  // A family that cannot say so stores its tensors all the same.
  if (!can_say(model.layout.family(), model.layout.format(), architecture,
               model.checkpoint.config())) {
    return model;
  }
  Model result = model;
  result.layout = layout_for(model.layout.family(), model.layout.format(), architecture,
                             model.checkpoint.config(), &model.checkpoint);
  return result;
}

std::vector<Cause> declaration_causes(const Architecture& a, const Architecture& b) {
  std::vector<Cause> causes;
  for (const auto& difference : differing_fields(a, b)) {
    Cause cause;
    const bool frequencies = difference.field == "rotary_frequencies";
    cause.mistake = frequencies ? Mistake::rope : Mistake::constant;
    const auto turns = [&](const Architecture& architecture) {
      return architecture.layer(difference.first_layer()).attention.rotary_frequencies;
    };
    cause.sentence = difference.where() +
                     (frequencies ? rope_difference(turns(a), turns(b))
                                  : fmt::format("{} is {} in B's config, {} in A's",
                                                difference.field, difference.b, difference.a));
    cause.repair = "let B's config say what A's does";
    causes.push_back(std::move(cause));
  }
  return causes;
}

}  // namespace regauge
