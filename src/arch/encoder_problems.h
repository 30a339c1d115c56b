#pragma once

#include <string>
#include <vector>

#include "regauge/arch/architecture.h"

namespace regauge {

// What is wrong with what single encoders have: attention over a grid, learned rows in front, a
// bare first attention, dropped tokens, contacts; a line each.
std::vector<std::string> problems_of_encoder(const Architecture& architecture);

}  // namespace regauge
