#pragma once

#include <nlohmann/json_fwd.hpp>

#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge::io {

// Puts one packed tensor in the place of each group of tensors that hold the same numbers together,
// and takes out of the config what said so. Where the config names a method that is not known here,
// nothing changes. Throws UsageError that names the tensor where codes and scales do not fit
// together. One file of this folder for each way of packing.
void join_packed(nlohmann::json& config, std::vector<StoredTensor>& tensors);

}  // namespace regauge::io
