#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "joiner.h"

namespace regauge::io {

// One tensor of floats of eight bits (or, of type I8, of pairs of four) with its scales: one, one
// for each row, or for each block, whose sides are those that are declared or follow from the
// shape.
void join_floats8(const StoredTensor& codes, const StoredTensor& scales,
                  std::optional<std::pair<std::int64_t, std::int64_t>> declared, Joiner& joiner);

}  // namespace regauge::io
