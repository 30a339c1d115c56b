#pragma once

#include <cstdint>

#include "regauge/arch/parameter_source.h"
#include "regauge/base/progress.h"

namespace regauge {

// A seed for random directions that follows from every number of both models, by SHA-256: whoever
// makes a model cannot know the directions before it is made, and the same two models always give
// the same answer.
std::uint64_t directions_seed(const ParameterSource& a, const ParameterSource& b,
                              Progress& progress);

}  // namespace regauge
