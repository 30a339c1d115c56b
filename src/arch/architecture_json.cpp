#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "regauge/arch/architecture.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

template <class Enum>
using Names = std::vector<std::pair<Enum, const char*>>;

template <class Enum>
const Names<Enum>& names_of();
template <>
const Names<Input>& names_of() {
  static const Names<Input> names = {{Input::tokens, "tokens"}, {Input::vectors, "vectors"}};
  return names;
}
template <>
const Names<Positions>& names_of() {
  static const Names<Positions> names = {
      {Positions::none, "none"},       {Positions::sinusoidal, "sinusoidal"},
      {Positions::learned, "learned"}, {Positions::rotary, "rotary"},
      {Positions::alibi, "alibi"},     {Positions::relative, "relative"}};
  return names;
}
template <>
const Names<Norm>& names_of() {
  static const Names<Norm> names = {{Norm::rms, "rms"}, {Norm::layer, "layer"}};
  return names;
}
template <>
const Names<Placement>& names_of() {
  static const Names<Placement> names = {{Placement::pre, "pre"}, {Placement::post, "post"}};
  return names;
}
template <>
const Names<Activation>& names_of() {
  static const Names<Activation> names = {{Activation::relu, "relu"},
                                          {Activation::gelu, "gelu"},
                                          {Activation::gelu_tanh, "gelu_tanh"},
                                          {Activation::silu, "silu"}};
  return names;
}
template <>
const Names<Output>& names_of() {
  static const Names<Output> names = {
      {Output::tokens, "tokens"}, {Output::classes, "classes"}, {Output::hidden, "hidden"}};
  return names;
}

constexpr std::array<std::pair<const char*, bool Biases::*>, 8> kBiases = {
    {{"q", &Biases::q},
     {"k", &Biases::k},
     {"v", &Biases::v},
     {"o", &Biases::o},
     {"gate", &Biases::gate},
     {"up", &Biases::up},
     {"down", &Biases::down},
     {"head", &Biases::head}}};

void write(Json& json, std::int64_t value) { json = value; }
void write(Json& json, double value) { json = value; }
void write(Json& json, bool value) { json = value; }
void write(Json& json, const std::vector<double>& value) { json = value; }
void write(Json& json, const Biases& value) {
  json = Json::array();
  for (const auto& [name, member] : kBiases) {
    if (value.*member) json.push_back(name);
  }
}
template <class Enum>
requires std::is_enum_v<Enum>
void write(Json& json, Enum value) {
  for (const auto& [known, name] : names_of<Enum>()) {
    if (known == value) json = name;
  }
}

// Each read() returns what it expected, or nothing when the value was good.
std::string read(const Json& json, std::int64_t& value) {
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{INT64_MAX})) {
    return "a whole number";
  }
  value = json.get<std::int64_t>();
  return "";
}
std::string read(const Json& json, double& value) {
  if (!json.is_number()) return "a number";
  value = json.get<double>();
  return "";
}
std::string read(const Json& json, bool& value) {
  if (!json.is_boolean()) return "true or false";
  value = json.get<bool>();
  return "";
}
std::string read(const Json& json, std::vector<double>& value) {
  if (!json.is_array()) return "a list of numbers";
  value.clear();
  for (const auto& item : json) {
    if (!item.is_number()) return "a list of numbers";
    value.push_back(item.get<double>());
  }
  return "";
}
std::string read(const Json& json, Biases& value) {
  const std::string expected = "a list of q, k, v, o, gate, up, down, head";
  if (!json.is_array()) return expected;
  value = {};
  for (const auto& item : json) {
    bool known = false;
    for (const auto& [name, member] : kBiases) {
      if (item.is_string() && item.get_ref<const std::string&>() == name) {
        value.*member = true;
        known = true;
      }
    }
    if (!known) return expected;
  }
  return "";
}
template <class Enum>
requires std::is_enum_v<Enum> std::string read(const Json& json, Enum& value) {
  std::vector<std::string> choices;
  for (const auto& [known, name] : names_of<Enum>()) {
    if (json.is_string() && json.get_ref<const std::string&>() == name) {
      value = known;
      return "";
    }
    choices.emplace_back(name);
  }
  return fmt::format("one of {}", fmt::join(choices, ", "));
}

// Every field by its name: the one list that reading and writing share.
template <class A, class Visit>
void visit_fields(A& a, Visit&& visit) {
  visit("width", a.width);
  visit("layers", a.layers);
  visit("heads", a.heads);
  visit("kv_heads", a.kv_heads);
  visit("qk_width", a.qk_width);
  visit("v_width", a.v_width);
  visit("ffn_width", a.ffn_width);
  visit("input", a.input);
  visit("vocabulary", a.vocabulary);
  visit("input_width", a.input_width);
  visit("input_bias", a.input_bias);
  visit("class_token", a.class_token);
  visit("token_types", a.token_types);
  visit("embedding_scale", a.embedding_scale);
  visit("embedding_norm", a.embedding_norm);
  visit("positions", a.positions);
  visit("max_positions", a.max_positions);
  visit("rotary_dims", a.rotary_dims);
  visit("rotary_frequencies", a.rotary_frequencies);
  visit("relative_buckets", a.relative_buckets);
  visit("relative_max_distance", a.relative_max_distance);
  visit("norm", a.norm);
  visit("norm_bias", a.norm_bias);
  visit("norm_eps", a.norm_eps);
  visit("placement", a.placement);
  visit("qk_norm", a.qk_norm);
  visit("causal", a.causal);
  visit("parallel", a.parallel);
  visit("attention_scale", a.attention_scale);
  visit("attention_window", a.attention_window);
  visit("activation", a.activation);
  visit("gated", a.gated);
  visit("biases", a.biases);
  visit("output", a.output);
  visit("classes", a.classes);
  visit("head_transform", a.head_transform);
  visit("tied", a.tied);
  visit("log_probabilities", a.log_probabilities);
}

}  // namespace

Json to_json(const Architecture& architecture) {
  Json json = Json::object();
  visit_fields(architecture,
               [&](const char* name, const auto& value) { write(json[name], value); });
  return json;
}

Architecture architecture_from_json(const Json& json) {
  if (!json.is_object()) throw UsageError("[architecture] expected a JSON object");
  Architecture architecture;
  std::vector<std::string> problems;
  std::set<std::string> known;
  visit_fields(architecture, [&](const char* name, auto& value) {
    known.insert(name);
    const auto found = json.find(name);
    if (found == json.end()) return;
    const std::string expected = read(*found, value);
    if (!expected.empty()) {
      problems.push_back(fmt::format("{} is {}; expected {}", name, found->dump(), expected));
    }
  });
  for (const auto& [key, value] : json.items()) {
    if (!known.contains(key)) problems.push_back(fmt::format("unknown key '{}'", key));
  }
  if (!problems.empty()) {
    throw UsageError(fmt::format("[architecture] {}", fmt::join(problems, "\n[architecture] ")));
  }
  // What follows from the rest when it is not given.
  if (!json.contains("kv_heads")) architecture.kv_heads = architecture.heads;
  if (!json.contains("v_width")) architecture.v_width = architecture.qk_width;
  if (!json.contains("attention_scale") && architecture.qk_width > 0) {
    architecture.attention_scale = 1 / std::sqrt(static_cast<double>(architecture.qk_width));
  }
  if (architecture.positions == Positions::rotary) {
    if (!json.contains("rotary_dims")) architecture.rotary_dims = architecture.qk_width;
    if (!json.contains("rotary_frequencies") && architecture.rotary_dims > 0 &&
        architecture.rotary_dims <= architecture.qk_width && architecture.qk_width < (1 << 20)) {
      architecture.rotary_frequencies = rotary_frequencies(architecture.rotary_dims, 10000);
    }
  }
  validate(architecture);
  return architecture;
}

bool same_value(const Json& a, const Json& b) {
  if (a.is_array() && b.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_value);
  }
  if (!a.is_number() || !b.is_number()) return a == b;
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= 1e-6 * std::min(std::abs(x), std::abs(y));
}

}  // namespace regauge
