#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "learned.h"
#include "regauge/base/error.h"

namespace regauge {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Learning, steps, rate, compact, rematch,
                                                neuron_rate, similarity, premium, seed)

nlohmann::json to_json(const Learning& learning) { return learning; }

Learning learning_from_json(const nlohmann::json& json) {
  const nlohmann::json known = to_json(Learning{});
  std::vector<std::string> keys;
  for (const auto& [key, value] : known.items()) keys.push_back(key);
  std::string problems;
  for (const auto& [key, value] : json.items()) {
    if (!known.contains(key)) {
      problems +=
          fmt::format("\n  '{}' is not a setting; there are {}", key, fmt::join(keys, ", "));
      continue;
    }
    const auto& like = known.at(key);
    const bool fits = like.is_boolean()        ? value.is_boolean()
                      : like.is_number_float() ? value.is_number() && value >= 0
                                               : value.is_number_integer() && value >= 0;
    if (!fits) problems += fmt::format("\n  '{}' must be like {}, not negative", key, like.dump());
  }
  if (!problems.empty()) throw UsageError("settings of learned:" + problems);
  const auto learning = json.get<Learning>();
  if (learning.steps < 1 || learning.rate <= 0) {
    throw UsageError("settings of learned:\n  'steps' and 'rate' must be positive");
  }
  return learning;
}

}  // namespace regauge
