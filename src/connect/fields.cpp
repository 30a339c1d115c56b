#include "fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "regauge/base/error.h"

namespace regauge::connect {
namespace {

using nlohmann::json;

// The beginning of a value, for a message.
std::string as_written(const json& value) {
  constexpr std::size_t kMost = 60;
  if (value.is_structured() && value.size() > 8) return value.type_name();
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

bool is_finite(const json& value) {
  return value.is_number() && std::isfinite(value.get<double>());
}

}  // namespace

json number_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

Fields::Fields(const json& json, std::string where) : json_(json), where_(std::move(where)) {
  if (!json_.is_object()) {
    throw UsageError(fmt::format("{}: must be an object, not {}", where_, as_written(json_)));
  }
}

void Fields::refuse(const std::string& key, const std::string& expected) const {
  throw UsageError(
      fmt::format("{}: '{}' must be {}, not {}", where_, key, expected, as_written(json_.at(key))));
}

const json& Fields::at(const std::string& key) {
  asked_.insert(key);
  const auto found = json_.find(key);
  if (found == json_.end()) throw UsageError(fmt::format("{}: '{}' is missing", where_, key));
  return *found;
}

std::string Fields::text(const std::string& key) {
  const json& value = at(key);
  if (!value.is_string()) refuse(key, "text");
  return value;
}

double Fields::number(const std::string& key) {
  const json& value = at(key);
  if (!is_finite(value)) refuse(key, "a finite number");
  return value;
}

double Fields::number_or_null(const std::string& key) {
  return at(key).is_null() ? std::numeric_limits<double>::quiet_NaN() : number(key);
}

std::int64_t Fields::count(const std::string& key) {
  const json& value = at(key);
  // One that is too large for the type comes out negative.
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
    refuse(key, "a whole number, at least 0");
  }
  return value;
}

const json& Fields::object(const std::string& key) {
  const json& value = at(key);
  if (!value.is_object()) refuse(key, "an object");
  return value;
}

const json& Fields::array(const std::string& key) {
  const json& value = at(key);
  if (!value.is_array()) refuse(key, "an array");
  return value;
}

std::vector<double> Fields::numbers(const std::string& key) {
  std::vector<double> result;
  for (const json& value : array(key)) {
    if (!is_finite(value)) refuse(key, "an array of finite numbers");
    result.push_back(value);
  }
  return result;
}

std::map<std::string, double> Fields::numbers_by_name(const std::string& key) {
  std::map<std::string, double> result;
  for (const auto& [name, value] : object(key).items()) {
    if (!is_finite(value)) refuse(key, "an object of finite numbers");
    result[name] = value;
  }
  return result;
}

void Fields::finish() const {
  for (const auto& [key, value] : json_.items()) {
    if (asked_.contains(key)) continue;
    throw UsageError(
        fmt::format("{}: '{}' is no key here; known are {}", where_, key, fmt::join(asked_, ", ")));
  }
}

}  // namespace regauge::connect
