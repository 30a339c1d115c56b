#include "config_path.h"

#include <charconv>
#include <limits>
#include <string_view>

namespace regauge {
namespace {

// Splits off the first step of a path.
std::string_view step(std::string_view& path) {
  const std::size_t slash = path.find('/');
  const std::string_view first = path.substr(0, slash);
  path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  return first;
}

// A place in a list; one that no list has where the name is no number.
std::size_t place_of(const std::string& name) {
  std::size_t place = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, place);
  return error == std::errc() && rest == end ? place : std::numeric_limits<std::size_t>::max();
}

}  // namespace

const nlohmann::json* find_path(const nlohmann::json& config, const std::string& path) {
  const nlohmann::json* at = &config;
  for (std::string_view rest = path; !rest.empty();) {
    const std::string name(step(rest));
    if (const auto place = place_of(name); at->is_array() && place < at->size()) {
      at = &(*at)[place];
    } else if (at->is_object() && at->contains(name)) {
      at = &(*at)[name];
    } else {
      return nullptr;
    }
  }
  return at;
}

void set_path(nlohmann::json& config, const std::string& path, nlohmann::json value) {
  nlohmann::json* at = &config;
  for (std::string_view rest = path; !rest.empty();) {
    const std::string name(step(rest));
    if (name == "0") {
      if (!at->is_array() || at->empty()) *at = nlohmann::json::array({nullptr});
      at = &at->front();
    } else {
      if (!at->is_object()) *at = nlohmann::json::object();
      at = &(*at)[name];
    }
  }
  *at = std::move(value);
}

}  // namespace regauge
