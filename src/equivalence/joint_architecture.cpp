#include <fmt/format.h>

#include <set>

#include "regauge/equivalence/compare.h"

namespace regauge {
std::vector<std::string> architecture_differences(const Architecture& a, const Architecture& b) {
  std::set<std::string> ignored = {"tied", "biases", "norm_bias", "input_bias"};
  // Without a table the context length is a promise, not a part of the function.
  if (!a.has_position_table() && !b.has_position_table()) ignored.insert("max_positions");
  const nlohmann::json left = to_json(a), right = to_json(b);
  std::vector<std::string> differences;
  for (const auto& [key, value] : left.items()) {
    if (ignored.contains(key) || same_value(value, right.at(key))) continue;
    differences.push_back(fmt::format("{}: {} and {}", key, value.dump(), right.at(key).dump()));
  }
  return differences;
}

Architecture joint_architecture(const Architecture& a, const Architecture& b) {
  Architecture joint = a;
  joint.tied = a.tied && b.tied;
  joint.norm_bias = a.norm_bias || b.norm_bias;
  joint.input_bias = a.input_bias || b.input_bias;
  const auto take = [&](bool Biases::*bias) {
    joint.biases.*bias = a.biases.*bias || b.biases.*bias;
  };
  for (const auto bias : {&Biases::q, &Biases::k, &Biases::v, &Biases::o, &Biases::gate,
                          &Biases::up, &Biases::down, &Biases::head}) {
    take(bias);
  }
  return joint;
}

}  // namespace regauge
