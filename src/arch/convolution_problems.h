#pragma once

#include <string>
#include <vector>

#include "regauge/arch/architecture.h"

namespace regauge {

// What is wrong with what stands between vectors and the stream, a line each.
std::vector<std::string> problems_of_convolutions(const Architecture& architecture);

}  // namespace regauge
