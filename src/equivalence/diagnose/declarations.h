#pragma once

#include <optional>

#include "regauge/equivalence/diagnosis.h"

namespace regauge {

// B's numbers read as A's config says: B's own architecture but for every number and switch that
// A's declares otherwise. None if that asks for other tensors.
std::optional<Architecture> declared_as(const Architecture& a, const Architecture& b);
// The file with the layout of another architecture that asks for the same tensors. It still
// declares its own.
Model read_as(const Model& model, const Architecture& architecture);
// What the two configs say differently, a cause each.
std::vector<Cause> declaration_causes(const Architecture& a, const Architecture& b);

}  // namespace regauge
