#include "regauge/arch/towers.h"

#include "names.h"

namespace regauge {
namespace {

constexpr std::string_view kBeside = "beside.";

}  // namespace

std::string Tower::among_all(std::string_view name) const {
  const std::int64_t layer = layer_of(name);
  return layer < 0 ? prefix + std::string(name)
                   : name_of_layer(first_layer + layer, name_in_layer(name));
}

std::optional<std::string> Tower::own(std::string_view name) const {
  if (const std::int64_t layer = layer_of(name); layer >= 0) {
    const std::int64_t end = first_layer + architecture.layers;
    if (layer < first_layer || layer >= end) return std::nullopt;
    return name_of_layer(layer - first_layer, name_in_layer(name));
  }
  if (name.starts_with(kBeside) == prefix.empty()) return std::nullopt;
  return std::string(name.substr(prefix.size()));
}

std::vector<Tower> towers_of(const Architecture& architecture) {
  std::vector<Tower> towers = {{architecture.alone()}};
  for (const Architecture& beside : architecture.beside) {
    towers.push_back({beside, architecture.layers, std::string(kBeside)});
  }
  return towers;
}

Model tower_of(const Model& model, const Tower& tower) {
  return {model.checkpoint, tower.architecture, model.layout.of_tower(tower), {}, {}, {}};
}

}  // namespace regauge
