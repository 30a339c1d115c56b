#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "regauge/equivalence/compare.h"

namespace regauge {
namespace {

// Files round frequencies, eps and scales, some of them to 32 bits.
bool near(const nlohmann::json& a, const nlohmann::json& b) {
  if (a.is_array() && b.is_array()) return std::equal(a.begin(), a.end(), b.begin(), b.end(), near);
  if (!a.is_number() || !b.is_number()) return a == b;
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= 1e-6 * std::min(std::abs(x), std::abs(y));
}

bool has_position_table(const Architecture& a) {
  return a.positions == Positions::learned || a.positions == Positions::sinusoidal;
}

}  // namespace

std::vector<std::string> architecture_differences(const Architecture& a, const Architecture& b) {
  std::set<std::string> ignored = {"tied", "biases", "norm_bias", "input_bias"};
  // Without a table the context length is a promise, not a part of the function.
  if (!has_position_table(a) && !has_position_table(b)) ignored.insert("max_positions");
  const nlohmann::json left = to_json(a), right = to_json(b);
  std::vector<std::string> differences;
  for (const auto& [key, value] : left.items()) {
    if (ignored.contains(key) || near(value, right.at(key))) continue;
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
