#pragma once

#include <string>
#include <vector>

#include "regauge/arch/architecture.h"

namespace regauge {

// Why two models cannot be compared as one architecture, a line each; empty if they can. Files
// round eps, scales and frequencies; a tie, a bias that is nowhere but zero, and tokens at the end
// of the vocabulary are no difference.
std::vector<std::string> architecture_differences(const Architecture& a, const Architecture& b);
// The architecture as which both can be read: untied unless both are tied, with every bias that one
// of them has, the tokens that both have, and a pooler only if both have one.
Architecture joint_architecture(const Architecture& a, const Architecture& b);
// The same, or UsageError with the differences.
Architecture require_joint_architecture(const Architecture& a, const Architecture& b);
// What only one of them gives and is therefore not compared, a line each.
std::vector<std::string> output_differences(const Architecture& a, const Architecture& b);
// What the two declare differently although they can be compared, a line each.
std::vector<std::string> declaration_differences(const Architecture& a, const Architecture& b);

}  // namespace regauge
