#pragma once

#include <memory>

#include "regauge/action/activations.h"
#include "regauge/arch/parameters.h"
#include "regauge/lab/data.h"

namespace regauge::lab {

// Two models of one architecture on `batches` batches of `size` examples, drawn at random from the
// stream "batches" of `seed`.
std::unique_ptr<PairActivations> make_activations(const Architecture& architecture,
                                                  Parameters<float> a, Parameters<float> b,
                                                  std::shared_ptr<const Data> data,
                                                  std::int64_t batches, std::int64_t size,
                                                  std::uint64_t seed);

}  // namespace regauge::lab
