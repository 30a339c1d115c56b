#pragma once

#include <memory>
#include <vector>

#include "regauge/arch/parameters.h"
#include "regauge/base/progress.h"
#include "regauge/lab/data.h"

namespace regauge::lab {

// The data set `self`: sequences that causal language models of one architecture write themselves,
// each from a random first token, the writers in turn. Throws UsageError for models that write no
// tokens. Progress counts positions.
std::unique_ptr<Data> sample_data(const Architecture& architecture,
                                  const std::vector<const Parameters<float>*>& writers,
                                  std::int64_t sequences, std::int64_t length, std::uint64_t seed,
                                  Progress& progress);

}  // namespace regauge::lab
