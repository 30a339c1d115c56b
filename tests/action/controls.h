#pragma once

#include <vector>

#include "regauge/arch/parameters.h"

namespace regauge::testing {

// A rewrite that looks like a symmetry and is none: what theory.md section 8 says must be seen.
struct Control {
  const char* name;
  bool (*concerns)(const Architecture&);
  void (*apply)(const Architecture&, Parameters<double>&);
};

const std::vector<Control>& negative_controls();

bool rotary(const Architecture& a);  // with two pairs or more
bool latents(const Architecture& a);
bool tokens_before_rms(const Architecture& a);

}  // namespace regauge::testing
