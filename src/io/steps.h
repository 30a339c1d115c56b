#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "regauge/io/checkpoint.h"

namespace regauge {

// Blocks of numbers that share a step. A step is unearned where it is larger than the format's own
// quantiser would have made it: the codes of its block do not use the range that they always use
// (docs/formats.md has the range of each format). None is where a quantiser guarantees nothing.
struct StepCount {
  std::int64_t blocks = 0, unearned = 0;
  std::int64_t first = -1;  // the first number of the first block whose step is unearned
};

// Of a type's whole blocks; plain types and types of codebooks have none that count.
StepCount count_steps(DType dtype, std::span<const std::byte> bytes);
// Of a tensor, which is read once.
StepCount count_steps(const Checkpoint& checkpoint, const StoredTensor& tensor);

}  // namespace regauge
