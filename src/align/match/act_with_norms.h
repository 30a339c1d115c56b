#pragma once

#include "action/moved_model.h"
#include "regauge/arch/parameters.h"

namespace regauge {

// The encoder's norm, which keys and values of other layers read; empty for models of one stack.
template <class Scalar>
Parameters<Scalar> encoder_norm(const Architecture& architecture, const MovedModel& model) {
  Parameters<Scalar> norm;
  if (architecture.encoder_layers == 0) return norm;
  const std::string behind = architecture.encoder_norm() + ".";
  for (const auto& [name, value] : model.layer<Scalar>(layer_of(behind))) {
    if (name.starts_with(behind)) norm.emplace(name, value);
  }
  return norm;
}

// act_on_layer where a layer may read norms that are not its own.
template <class Scalar>
void act_with_norms(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                    const Parameters<Scalar>& norms, Parameters<Scalar>& tensors) {
  if (norms.empty()) return act_on_layer(symmetry, element, layer, tensors);
  const auto read = [&](std::string_view name) {
    const auto own = tensors.find(std::string(name));
    return own != tensors.end() ? own->second : norms.at(std::string(name));
  };
  tensors = moved_layer<Scalar>(symmetry, element, layer, read);
}

}  // namespace regauge
