#include "config_value.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "config_path.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

}  // namespace

std::optional<Json> field_from_config(const ConfigEntry& entry, const Json& value) {
  for (const auto& [config, field] : entry.values) {
    if (config == value) return field;
  }
  if (!entry.values.empty() && !value.is_number()) return std::nullopt;
  return value;
}

std::optional<Json> config_from_field(const ConfigEntry& entry, const Json& value) {
  for (const auto& [config, field] : entry.values) {
    if (field == value) return config;
  }
  if (!entry.values.empty() && !value.is_number()) return std::nullopt;
  return value;
}

std::optional<Json> joined_parts(const ConfigEntry& entry, const Json& config) {
  std::size_t length = 0;
  for (const auto& key : entry.keys) {
    const Json* found = find_path(config, key);
    if (found == nullptr || found->is_null()) return std::nullopt;
    if (!found->is_array()) continue;
    if (length != 0 && found->size() != length) return std::nullopt;
    length = found->size();
  }
  Json list = Json::array();
  for (std::size_t item = 0; item < length; ++item) {
    Json object = Json::object();
    for (std::size_t i = 0; i < entry.keys.size(); ++i) {
      const Json& found = *find_path(config, entry.keys[i]);
      object[entry.parts[i]] = found.is_array() ? found.at(item) : found;
    }
    list.push_back(std::move(object));
  }
  return list;
}

bool is_formula(const Json& term) {
  return term.is_string() && !term.get_ref<const std::string&>().empty() &&
         term.get_ref<const std::string&>().front() == '=';
}

Json as_written(const Json& value, Format format) {
  if (format == Format::safetensors || !value.is_number_float()) return value;
  const double number = value.get<double>();
  if (!(std::abs(number) <= std::numeric_limits<float>::max())) return value;
  const auto single = static_cast<float>(number);
  if (static_cast<double>(single) != number) return value;
  char text[64];
  const auto written = std::to_chars(text, text + sizeof text, single);
  return Json::parse(text, written.ptr).get<double>();
}

std::optional<Json> coerced(const Json& value, const Json& like) {
  if (like.is_boolean()) {
    if (value.is_boolean()) return value;
    if (value.is_number() && (value == 0 || value == 1)) return Json(value == 1);
    return std::nullopt;
  }
  if (like.is_number_integer()) {
    if (value.is_number_integer()) return value;
    if (!value.is_number()) return std::nullopt;
    const double number = value.get<double>();
    if (number != std::floor(number) || std::abs(number) > 9e15) return std::nullopt;
    return Json(static_cast<std::int64_t>(number));
  }
  if (like.is_number())
    return value.is_number() ? std::optional(Json(value.get<double>())) : std::nullopt;
  if (like.is_string()) return value.is_string() ? std::optional(value) : std::nullopt;
  return value;
}

}  // namespace regauge
