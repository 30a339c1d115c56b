#pragma once

#include <memory>

#include "regauge/base/progress.h"
#include "regauge/lab/data.h"

namespace regauge::lab {

// The data set `self`: sequences that a causal language model writes itself, each from a random
// first token. Throws UsageError for a model that writes no tokens. Progress counts positions.
std::unique_ptr<Data> sample_data(const Architecture& architecture,
                                  const Parameters<float>& parameters, std::int64_t sequences,
                                  std::int64_t length, std::uint64_t seed, Progress& progress);

}  // namespace regauge::lab
