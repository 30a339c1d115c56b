#pragma once

#include <string>
#include <vector>

#include "regauge/arch/architecture.h"

namespace regauge {

// What is wrong with a layer's experts and their router, a line each.
std::vector<std::string> problems_of_experts(const Layer& layer, Norm norm);

}  // namespace regauge
