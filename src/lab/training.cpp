#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

#include "regauge/arch/layout.h"
#include "regauge/base/error.h"
#include "regauge/base/random.h"
#include "regauge/lab/train.h"
#include "symmetry/require_layers.h"

namespace regauge::lab {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Training, data, test_data, tokenizer, from, reinit,
                                                freeze, length, steps, batch, warmup, deviation,
                                                learning_rate, final_fraction, weight_decay, beta1,
                                                beta2, clip, seed, test_every, test_examples)

nlohmann::json to_json(const Training& training) { return training; }

Training training_from_json(const nlohmann::json& json) {
  const nlohmann::json known = to_json(Training{});
  std::string problems;
  const auto expect = [&](bool good, const std::string& problem) {
    if (!good) problems += "\n  " + problem;
  };
  for (const auto& [key, value] : json.items()) {
    if (!known.contains(key)) {
      std::vector<std::string> keys;
      for (const auto& [name, unused] : known.items()) keys.push_back(name);
      expect(false, fmt::format("'{}' is not a setting; there are {}", key, fmt::join(keys, ", ")));
    }
    if (!known.contains(key)) continue;
    const auto& like = known.at(key);
    expect(like.is_string()         ? value.is_string()
           : like.is_number_float() ? value.is_number()
                                    : value.is_number_integer() && value >= 0,
           fmt::format("'{}' must be {}", key,
                       like.is_string()         ? "text"
                       : like.is_number_float() ? "a number"
                                                : "a whole number, not negative"));
  }
  if (!problems.empty()) throw UsageError("training settings:" + problems);
  const auto t = json.get<Training>();
  expect(!t.data.empty(), "'data' is missing: KIND:PATH, see regauge lab eval --help");
  expect(t.steps > 0 && t.batch > 0, "'steps' and 'batch' must be positive");
  expect(t.deviation >= 0, "'deviation' must not be negative");
  expect(t.learning_rate > 0 && t.clip > 0, "'learning_rate' and 'clip' must be positive");
  expect(t.beta1 >= 0 && t.beta1 < 1 && t.beta2 >= 0 && t.beta2 < 1,
         "'beta1' and 'beta2' must be in [0, 1)");
  expect(t.reinit.empty() || !t.from.empty(), "'reinit' is a part of the model of 'from'");
  expect(t.freeze == "rest" || t.freeze == "none", "'freeze' must be rest or none");
  if (!problems.empty()) throw UsageError("training settings:" + problems);
  if (!t.reinit.empty()) Scope(t.reinit).contains_tensor("");
  return t;
}

Parameters<float> initial_parameters(const Architecture& architecture, const Training& training) {
  std::optional<Model> from;
  if (!training.from.empty()) from = Model::open(training.from);
  if (from && to_json(from->architecture) != to_json(architecture)) {
    throw UsageError(fmt::format(
        "[train] {} is of another architecture: {}", training.from,
        nlohmann::json::diff(to_json(architecture), to_json(from->architecture)).dump()));
  }
  std::optional<Scope> anew;
  if (!training.reinit.empty()) anew.emplace(training.reinit);
  if (anew) require_layers(*anew, architecture.layers);
  Parameters<float> parameters;
  const double depth = std::sqrt(2.0 * static_cast<double>(architecture.layers));
  for (const auto& spec : parameter_specs(architecture)) {
    auto& value = parameters[spec.name];
    if (from && (!anew || !anew->contains_tensor(spec.name))) {
      value = from->read<float>(spec.name);
      continue;
    }
    if (spec.name.ends_with(".gain") || spec.name.ends_with(".bias")) {
      value.setConstant(spec.rows, spec.cols, spec.name.ends_with(".gain") ? 1 : 0);
      continue;
    }
    double deviation =
        training.deviation > 0 ? training.deviation : 1 / std::sqrt(static_cast<double>(spec.rows));
    if (spec.name.ends_with("attn.o.weight") || spec.name.ends_with("delta.o.weight") ||
        spec.name.ends_with("ffn.down.weight")) {
      deviation /= depth;
    }
    if (!spec.name.ends_with(".weight")) deviation = 0.02;
    Random random(training.seed, "initial." + spec.name);
    value.resize(spec.rows, spec.cols);
    for (auto& entry : value.reshaped<Eigen::RowMajor>()) {
      entry = static_cast<float>(deviation * random.normal());
    }
  }
  return parameters;
}

}  // namespace regauge::lab
