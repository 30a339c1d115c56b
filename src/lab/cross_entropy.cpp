#include "cross_entropy.h"

#include <fmt/format.h>

#include "regauge/base/error.h"

namespace regauge::lab {

at::Tensor labels(const Batch& batch, std::int64_t count) {
  if (static_cast<std::int64_t>(batch.targets.size()) != count) {
    throw UsageError(fmt::format("the model has {} outputs for a batch with {} targets", count,
                                 batch.targets.size()));
  }
  return numbers(batch.targets, {count});
}

at::Tensor cross_entropy(const at::Tensor& outputs, const Batch& batch) {
  const at::Tensor logits = outputs.flatten(0, -2);
  return at::cross_entropy_loss(logits, labels(batch, logits.size(0)), {}, at::Reduction::Mean,
                                kIgnore);
}

}  // namespace regauge::lab
