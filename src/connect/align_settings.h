#pragma once

#include "align/learned/learned.h"
#include "regauge/align/align.h"

namespace regauge::connect {

// How two models are aligned, by whichever method.
struct AlignSettings {
  AlignMethod method = AlignMethod::weights;
  AlignOptions options;
  // Of activations and learned, which run the models:
  std::int64_t batch = 32;            // examples at a time
  std::int64_t batches = 8;           // of activations
  std::string start = "activations";  // of learned; or weights
  std::string loss = "distillation";  // of learned; or task
  Learning learning;

  // The loss of every permutation of a layer's heads is measured for no more heads than these.
  static constexpr std::int64_t kMostRankedHeads = 4;
};

// {"method": NAME, "scope": TEXT, ...}: the fields above, those of AlignOptions, and for learned
// those of Learning, all in one object; absent ones at their defaults. Throws UsageError for those
// that the method does not have.
AlignSettings align_settings_from_json(const nlohmann::json& json);
// All that the method has, defaults included.
nlohmann::json to_json(const AlignSettings& settings);

}  // namespace regauge::connect
