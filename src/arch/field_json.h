#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "regauge/arch/architecture.h"

// The value of one field in JSON: numbers, words for enumerators, lists.
namespace regauge::field_json {

using Json = nlohmann::json;

template <class Enum>
using Names = std::vector<std::pair<Enum, const char*>>;

template <class Enum>
const Names<Enum>& names_of();
template <>
inline const Names<Input>& names_of() {
  static const Names<Input> names = {{Input::tokens, "tokens"}, {Input::vectors, "vectors"}};
  return names;
}
template <>
inline const Names<PositionTable>& names_of() {
  static const Names<PositionTable> names = {{PositionTable::none, "none"},
                                             {PositionTable::sinusoidal, "sinusoidal"},
                                             {PositionTable::learned, "learned"}};
  return names;
}
template <>
inline const Names<Sinusoids>& names_of() {
  static const Names<Sinusoids> names = {{Sinusoids::pairs, "pairs"},
                                         {Sinusoids::halves, "halves"},
                                         {Sinusoids::halves_inclusive, "halves_inclusive"}};
  return names;
}
template <>
inline const Names<Positions>& names_of() {
  static const Names<Positions> names = {{Positions::none, "none"},
                                         {Positions::rotary, "rotary"},
                                         {Positions::alibi, "alibi"},
                                         {Positions::relative, "relative"}};
  return names;
}
template <>
inline const Names<Norm>& names_of() {
  static const Names<Norm> names = {{Norm::rms, "rms"}, {Norm::layer, "layer"}};
  return names;
}
template <>
inline const Names<ConvolutionNorm>& names_of() {
  static const Names<ConvolutionNorm> names = {{ConvolutionNorm::none, "none"},
                                               {ConvolutionNorm::first, "first"},
                                               {ConvolutionNorm::layer, "layer"}};
  return names;
}
template <>
inline const Names<QkNorm>& names_of() {
  static const Names<QkNorm> names = {
      {QkNorm::none, "none"}, {QkNorm::heads, "heads"}, {QkNorm::joint, "joint"}};
  return names;
}
template <>
inline const Names<Placement>& names_of() {
  static const Names<Placement> names = {{Placement::pre, "pre"},
                                         {Placement::post, "post"},
                                         {Placement::both, "both"},
                                         {Placement::behind, "behind"}};
  return names;
}
template <>
inline const Names<Activation>& names_of() {
  static const Names<Activation> names = {{Activation::relu, "relu"},
                                          {Activation::relu_squared, "relu_squared"},
                                          {Activation::gelu, "gelu"},
                                          {Activation::gelu_tanh, "gelu_tanh"},
                                          {Activation::gelu_quick, "gelu_quick"},
                                          {Activation::silu, "silu"},
                                          {Activation::tanh, "tanh"}};
  return names;
}
template <>
inline const Names<Scoring>& names_of() {
  static const Names<Scoring> names = {{Scoring::softmax, "softmax"},
                                       {Scoring::sigmoid, "sigmoid"}};
  return names;
}
template <>
inline const Names<Output>& names_of() {
  static const Names<Output> names = {{Output::tokens, "tokens"},
                                      {Output::classes, "classes"},
                                      {Output::hidden, "hidden"},
                                      {Output::pooled, "pooled"}};
  return names;
}

inline void write(Json& json, std::int64_t value) { json = value; }
inline void write(Json& json, double value) { json = value; }
inline void write(Json& json, bool value) { json = value; }
inline void write(Json& json, const std::vector<double>& value) { json = value; }
inline void write(Json& json, const std::vector<Convolution>& value) {
  json = Json::array();
  for (const Convolution& of : value) {
    json.push_back({{"channels", of.channels},
                    {"kernel", of.kernel},
                    {"stride", of.stride},
                    {"padding", of.padding},
                    {"bias", of.bias}});
  }
}
template <class Enum>
requires std::is_enum_v<Enum>
void write(Json& json, Enum value) {
  for (const auto& [known, name] : names_of<Enum>()) {
    if (known == value) json = name;
  }
}

// One output is a word, several are a list.
inline void write(Json& json, const Outputs& outputs) {
  std::vector<Json> words;
  for (const Output output : outputs.list()) write(words.emplace_back(), output);
  json = words.size() == 1 ? words.front() : Json(words);
}

// Each read() returns what it expected, or nothing when the value was good.
inline std::string read(const Json& json, std::int64_t& value) {
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{INT64_MAX})) {
    return "a whole number";
  }
  value = json.get<std::int64_t>();
  return "";
}
inline std::string read(const Json& json, double& value) {
  if (!json.is_number()) return "a number";
  value = json.get<double>();
  return "";
}
inline std::string read(const Json& json, bool& value) {
  if (!json.is_boolean()) return "true or false";
  value = json.get<bool>();
  return "";
}
inline std::string read(const Json& json, std::vector<double>& value) {
  if (!json.is_array()) return "a list of numbers";
  value.clear();
  for (const auto& item : json) {
    if (!item.is_number()) return "a list of numbers";
    value.push_back(item.get<double>());
  }
  return "";
}
inline std::string read(const Json& json, std::vector<Convolution>& value) {
  const std::string expected = "a list of objects with channels, kernel, stride, padding and bias";
  value.clear();
  for (const auto& item : json.is_array() ? json : Json::array({json})) {
    Convolution& of = value.emplace_back();
    const std::pair<const char*, std::int64_t*> sizes[] = {{"channels", &of.channels},
                                                           {"kernel", &of.kernel},
                                                           {"stride", &of.stride},
                                                           {"padding", &of.padding}};
    if (!item.is_object()) return expected;
    std::size_t known = 0;
    for (const auto& [name, size] : sizes) {
      if (!item.contains(name)) continue;
      if (!read(item.at(name), *size).empty()) return expected;
      ++known;
    }
    if (item.contains("bias")) {
      if (!read(item.at("bias"), of.bias).empty()) return expected;
      ++known;
    }
    if (known != item.size()) return expected;
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

inline std::string read(const Json& json, Outputs& value) {
  Output first = Output::tokens;
  if (!json.is_array() || json.empty()) {
    const std::string expected = read(json, first);
    if (expected.empty()) value = first;
    return expected.empty() ? "" : expected + ", or a list of them";
  }
  std::string expected = read(json.front(), first);
  value = first;
  for (const auto& item : json) {
    Output further = first;
    if (expected.empty()) expected = read(item, further);
    value.add(further);
  }
  return expected;
}

// Files of before there were norms of all heads together say true or false.
inline std::string read(const Json& json, QkNorm& value) {
  if (json.is_boolean()) {
    value = json.get<bool>() ? QkNorm::heads : QkNorm::none;
    return "";
  }
  return read<QkNorm>(json, value);
}

}  // namespace regauge::field_json
