#include "regauge/arch/apart.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <memory>

#include "family.h"

namespace regauge {

bool is_apart(const Family& family, std::string_view tensor, std::int64_t layers) {
  if (const std::string& before = family.apart_layers;
      !before.empty() && tensor.starts_with(before)) {
    const std::string_view rest = tensor.substr(before.size());
    std::int64_t layer = -1;
    const char* const end = std::to_address(rest.end());
    const auto number = std::from_chars(std::to_address(rest.begin()), end, layer);
    if (number.ptr != end && *number.ptr == '.' && layer >= layers) return true;
  }
  return std::ranges::any_of(family.apart_tensors,
                             [&](const std::string& pattern) { return fits(pattern, tensor); }) ||
         std::ranges::any_of(family.beside,
                             [&](const Family& other) { return is_apart(other, tensor, layers); });
}

bool is_apart_key(const Family& family, std::string_view path) {
  return std::ranges::any_of(family.apart_keys,
                             [&](const std::string& pattern) { return fits(pattern, path); }) ||
         std::ranges::any_of(family.beside,
                             [&](const Family& other) { return is_apart_key(other, path); });
}
namespace {

using Json = nlohmann::json;

void collect(const Family& family, const Json& object, const std::string& prefix,
             std::map<std::string, std::string>& keys) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = prefix + key;
    if (is_apart_key(family, path)) {
      keys[path] = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    } else if (value.is_object()) {
      collect(family, value, path + "/", keys);
    }
  }
}

}  // namespace

Apart apart_of(const Model& model) {
  Apart apart;
  if (model.checkpoint.config().is_null()) return apart;
  const Family& family = family_of(model.layout.family(), model.layout.format());
  for (const auto& name : model.unclaimed) {
    if (is_apart(family, name, model.architecture.layers)) apart.tensors.push_back(name);
  }
  collect(family, model.checkpoint.config(), "", apart.keys);
  return apart;
}

}  // namespace regauge
