#pragma once

#include <cstdint>

#include "regauge/arch/architecture.h"

namespace regauge {

// The dimension of symmetry_of is that of the calculus, at parameters drawn by the seed.
void expect_the_calculus(const Architecture& architecture, std::uint64_t seed);

}  // namespace regauge
