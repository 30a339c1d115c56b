#pragma once

#include "regauge/lab/data.h"

namespace regauge::lab {

// Throws UsageError for a batch that the architecture cannot take.
void check_batch(const Architecture& a, const Batch& batch);

}  // namespace regauge::lab
