#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

#include "regauge/equivalence/compare.h"

namespace regauge {
std::vector<std::string> architecture_differences(const Architecture& a, const Architecture& b) {
  std::set<std::string> ignored = {"tied", "biases", "norm_bias", "input_bias"};
  if (a.input == Input::tokens && b.input == Input::tokens) ignored.insert("vocabulary");
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
  joint.vocabulary = std::min(a.vocabulary, b.vocabulary);
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

std::vector<std::string> declaration_differences(const Architecture& a, const Architecture& b) {
  std::vector<std::string> lines;
  const auto one_has = [&](bool in_a, bool in_b, const char* what) {
    if (in_a != in_b) lines.push_back(fmt::format("only {} {}", in_a ? "A" : "B", what));
  };
  one_has(a.tied, b.tied, "declares its head tied to the token table");
  one_has(a.norm_bias, b.norm_bias, "has norm biases");
  one_has(a.input_bias, b.input_bias, "has an input bias");
  const auto bias = [&](bool Biases::*which, const char* name) {
    one_has(a.biases.*which, b.biases.*which, fmt::format("has a bias of {}", name).c_str());
  };
  bias(&Biases::q, "q");
  bias(&Biases::k, "k");
  bias(&Biases::v, "v");
  bias(&Biases::o, "o");
  bias(&Biases::gate, "the gate");
  bias(&Biases::up, "up");
  bias(&Biases::down, "down");
  bias(&Biases::head, "the head");
  return lines;
}

}  // namespace regauge
