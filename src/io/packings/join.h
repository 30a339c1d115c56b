#pragma once

#include <nlohmann/json_fwd.hpp>

#include <vector>

#include "joiner.h"

namespace regauge::io {

// Puts one packed tensor in the place of each group of tensors that hold the same numbers together,
// and takes out of the config what said so, but for what it says of activations. Throws UsageError
// that names the tensor where codes and scales do not fit together, or the method if it is not
// known. One file of this folder for each way of packing.
void join_packed(nlohmann::json& config, std::vector<StoredTensor>& tensors, BytesOf bytes);

}  // namespace regauge::io
