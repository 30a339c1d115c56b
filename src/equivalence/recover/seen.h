#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// What is found of a layer, and where the stream's map is vague, the layer itself.
struct Seen {
  Element found;
  Parameters<double> a, b;
};

// As a part records it (io/parts.h), without the layer: bit by bit what was found.
void to_json(nlohmann::json& json, const Seen& seen);
void from_json(const nlohmann::json& json, Seen& seen);

}  // namespace regauge
