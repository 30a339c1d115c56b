#pragma once

#include <string>
#include <vector>

#include "regauge/arch/architecture.h"

namespace regauge {

// What is wrong with the outputs and with what leads to them, a line each.
std::vector<std::string> problems_of_outputs(const Architecture& architecture);

}  // namespace regauge
