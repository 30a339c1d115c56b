#include "names.h"

#include <fmt/format.h>

#include <charconv>

namespace regauge {
namespace {

constexpr std::string_view kLayers = "layers.";

}  // namespace

std::int64_t layer_of(std::string_view name) {
  if (!name.starts_with(kLayers)) return -1;
  name.remove_prefix(kLayers.size());
  std::int64_t layer = -1;
  std::from_chars(name.data(), name.data() + name.size(), layer);
  return layer;
}

std::string_view name_in_layer(std::string_view name) {
  if (!name.starts_with(kLayers)) return name;
  return name.substr(name.find('.', kLayers.size()) + 1);
}

std::string name_of_layer(std::int64_t layer, std::string_view rest) {
  return layer < 0 ? std::string(rest) : fmt::format("layers.{}.{}", layer, rest);
}

std::string sublayer_of(std::string_view name) {
  const std::string_view rest = name_in_layer(name);
  return name_of_layer(layer_of(name), rest.substr(0, rest.find('.')));
}

std::string_view owner_of(std::string_view name) { return name.substr(0, name.rfind('.')); }

std::string sibling_of(std::string_view name, std::string_view role) {
  return fmt::format("{}.{}", owner_of(name), role);
}

std::string across_layers(std::string_view name, char number) {
  return layer_of(name) < 0 ? std::string(name)
                            : fmt::format("layers.{}.{}", number, name_in_layer(name));
}

}  // namespace regauge
