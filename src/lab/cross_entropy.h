#pragma once

#include "regauge/lab/data.h"
#include "tensors.h"

namespace regauge::lab {

// The batch's targets as a tensor of `count` numbers; throws UsageError if they are not as many.
at::Tensor labels(const Batch& batch, std::int64_t count);

// The mean cross entropy of the targets that count, in nats.
at::Tensor cross_entropy(const at::Tensor& outputs, const Batch& batch);

}  // namespace regauge::lab
