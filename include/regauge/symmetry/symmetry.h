#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "regauge/arch/architecture.h"
#include "regauge/symmetry/table.h"

namespace regauge {

// The group of parameter changes that leave the function of an architecture alone, and how it acts:
// spaces with their groups, the axes that live in them, and the shifts.
struct Symmetry {
  Architecture architecture;
  std::vector<Space> spaces;  // leaders stand before their followers
  std::vector<Shift> shifts;
  std::map<std::string, TensorAxes> tensors;
  std::map<std::string, NormSite> norms;

  std::int64_t dimension() const;
  double log2_components() const;  // of what acts: members that change nothing count once
  const Space* find_space(std::string_view name) const;
  const Shift* find_shift(std::string_view name) const;
};

// The entry of the fixed position table that a pinned tensor is read relative to.
double fixed_origin(const Architecture& architecture, std::string_view tensor, std::int64_t column);

// Exact for generic parameters; the norms' eps decides whether lengths are forgotten (eps = 0) or
// not.
Symmetry symmetry_of(const Architecture& architecture);

}  // namespace regauge
