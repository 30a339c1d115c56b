#pragma once

#include "regauge/lab/nullity.h"

namespace regauge::testing {

// At the first random parameters that leave no ReLU unit stuck.
lab::Nullity measure(const Architecture& a);

// The nullity of the Jacobian is that dimension, clearly.
void expect_complete(const Architecture& a, std::int64_t dimension);

}  // namespace regauge::testing
