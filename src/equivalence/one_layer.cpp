#include "one_layer.h"

#include <fmt/format.h>

#include <set>

namespace regauge {

bool has_single_layers(const Architecture& shape) { return shape.placement == Placement::pre; }

Architecture one_layer(Architecture shape) {
  shape.layers = 1;
  return shape;
}

ParameterSource one_layer(const Model& model, const Architecture& shape, const Patches& patches,
                          std::int64_t layer) {
  const Architecture single = one_layer(shape);
  std::set<std::string> held;
  for (const auto& spec : parameter_specs(model.architecture)) held.insert(spec.name);
  Patches cut;
  for (const auto& spec : parameter_specs(single)) {
    const std::string name =
        spec.layer < 0 ? spec.name : fmt::format("layers.{}{}", layer, spec.name.substr(8));
    const auto patch = patches.find(name);
    if (patch != patches.end()) {
      cut[spec.name] = patch->second;
    } else if (name != spec.name && held.contains(name)) {
      cut[spec.name] = [name](const ReadTensor& read) { return read(name); };
    }
  }
  return {model, single, std::move(cut)};
}

}  // namespace regauge
