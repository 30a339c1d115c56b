#pragma once

#include <nlohmann/json_fwd.hpp>

#include "joiner.h"

namespace regauge::io {

// Floats of eight bits with a scale for a tensor, for each row or for each block: as DeepSeek-V3,
// transformers' "fp8" and "fbgemm_fp8" and compressed-tensors' float-quantized store them.
// `settings`: the quantization_config, null if there is none.
void join_fp8(const nlohmann::json& settings, Joiner& joiner);

}  // namespace regauge::io
