#pragma once

#include <nlohmann/json_fwd.hpp>

#include "joiner.h"

// One function for each way in which tools store quantised weights, and one file. `settings` is the
// object of the config that names it. Each throws UsageError that names the tensor where what lies
// beside the codes is missing or does not fit them.
namespace regauge::io {

// Floats of eight bits with a scale for a tensor, for each row or for each block: as DeepSeek-V3
// and transformers' "fp8" and "fbgemm_fp8" store them. Settings may be null: the names say all.
void join_fp8(const nlohmann::json& settings, Joiner& joiner);
void join_compressed_tensors(const nlohmann::json& settings, Joiner& joiner);
void join_gptq(const nlohmann::json& settings, Joiner& joiner);
void join_awq(const nlohmann::json& settings, Joiner& joiner);
// gpt-oss's stacked experts.
void join_mxfp4(const nlohmann::json& settings, Joiner& joiner);
void join_bitsandbytes(const nlohmann::json& settings, Joiner& joiner);
// NVFP4 and FP8 of NVIDIA's Model Optimizer.
void join_modelopt(const nlohmann::json& settings, Joiner& joiner);
void join_mlx(const nlohmann::json& settings, Joiner& joiner);

}  // namespace regauge::io
