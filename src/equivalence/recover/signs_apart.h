#pragma once

#include <string>
#include <vector>

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge {

// Signs that change nothing and that the group leaves out. Where B seems to differ from A by one,
// each function says so in a sentence: nothing is concluded there.

// Of one rotary pair, or of one coordinate that does not rotate, in one kv head behind a QK-norm
// and in its queries (docs/findings.md, 3d). `a` and `b` are a layer in common coordinates.
std::vector<std::string> half_turns_of_heads(const Architecture& architecture, std::int64_t layer,
                                             const Parameters<double>& a,
                                             const Parameters<double>& b);

// Of a positional convolution's lengths with its kernel, and of all channels of a convolution in
// front of a layer norm (docs/theory.md, "Sound").
std::vector<std::string> signs_of_convolutions(const Architecture& architecture,
                                               const Parameters<double>& a,
                                               const Parameters<double>& b);

}  // namespace regauge
