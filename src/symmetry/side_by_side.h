#pragma once

#include "regauge/arch/towers.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// The group of models that stand side by side: each has its own, and nothing joins them. `parts`
// are those of towers_of(architecture).
Symmetry side_by_side(const Architecture& architecture, std::vector<Symmetry> parts);

// What moves one tower, under the names that it has among all.
Element among_all(const Tower& tower, const Element& own);

}  // namespace regauge
