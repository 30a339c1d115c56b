#pragma once

#include <cstdint>

#include "regauge/arch/architecture.h"

namespace regauge::testing {

// A token row that goes straight into a norm with eps > 0 and nowhere else: the norm is then a
// bijection of rows, and the table takes up its gain, its bias and any rotation by a change that is
// not linear. symmetry_of knows linear changes only.
bool table_takes_up_its_norm(const Architecture& architecture);

// The dimension of symmetry_of is that of the calculus, but for `more` that is known not to be in
// the group.
void expect_the_calculus(const Architecture& architecture, std::uint64_t seed,
                         std::int64_t more = 0);

}  // namespace regauge::testing
