#pragma once

#include "regauge/symmetry/symmetry.h"

namespace regauge {

// A factor of a group as people read it; those that recur in every layer are one.
struct Factor {
  std::string name;  // "layers.*.attn.heads"
  std::string category;
  std::string group;  // "GL(4)^2 wr S(2)"
  std::int64_t times = 0;
  std::int64_t dimension = 0;  // of all of them, as the next
  double log2_components = 0;
};

std::vector<Factor> factors_of(const Symmetry& symmetry);

}  // namespace regauge
