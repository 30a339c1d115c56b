#pragma once

#include <string>
#include <vector>

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge {

// Signs that change nothing and that the group leaves out: of a positional convolution's lengths
// with its kernel, and of all channels of a convolution in front of a layer norm (docs/theory.md,
// "Sound"). A sentence for each by which B seems to differ from A: nothing is concluded there.
std::vector<std::string> signs_of_convolutions(const Architecture& architecture,
                                               const Parameters<double>& a,
                                               const Parameters<double>& b);

}  // namespace regauge
