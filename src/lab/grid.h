#pragma once

#include <cstdint>

#include "regauge/arch/architecture.h"
#include "tensors.h"

namespace regauge::lab {

// Angles of the pairs at every position, [positions, pairs]: patches of a square picture behind
// `leading` rows that do not turn. Throws UsageError where there is no such picture.
at::Tensor grid_angles(const Attention& attention, std::int64_t positions, std::int64_t leading);

// The rows of a table of places for every query and key, [positions * positions].
at::Tensor grid_rows(const Attention& attention, std::int64_t positions);

}  // namespace regauge::lab
