#pragma once

#include "regauge/lab/data.h"

namespace regauge::lab {

// Throws UsageError unless the forward pass of the architecture can take the batch.
void check_batch(const Architecture& architecture, const Batch& batch);

}  // namespace regauge::lab
