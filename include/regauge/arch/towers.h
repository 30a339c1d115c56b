#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/arch/layout.h"

namespace regauge {

// One of the models that stand side by side in a checkpoint. What is named after it (parameters,
// spaces, shifts, norms, taps) has a name of its own, as if it stood alone, and one among all: its
// layers are numbered on from `first_layer`, and what belongs to no layer begins with `prefix`.
struct Tower {
  Architecture architecture;  // alone
  std::int64_t first_layer = 0;
  std::string prefix = {};

  std::string among_all(std::string_view name) const;
  // Nothing for what belongs to another tower.
  std::optional<std::string> own(std::string_view name) const;
};

// The model itself, which keeps its names, and the one beside it if there is one.
std::vector<Tower> towers_of(const Architecture& architecture);

// A tower of a model as a model of its own, in the same files. Nothing is unclaimed in it: what no
// tower reads is the whole model's.
Model tower_of(const Model& model, const Tower& tower);

}  // namespace regauge
