#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "grouped.h"
#include "methods.h"
#include "nvfp4.h"
#include "regauge/base/error.h"

namespace regauge::io {

void join_modelopt(const nlohmann::json& settings, Joiner& joiner) {
  for (const StoredTensor& codes : joiner.tensors()) {
    if (codes.dtype != DType::u8 || stem_of(codes, ".weight").empty()) continue;
    const StoredTensor& scales = joiner.require(codes.name + "_scale", codes, "scales");
    const StoredTensor& second =
        joiner.require(codes.name + "_scale_2", codes, "scale of its scales");
    join_nvfp4(codes.name, codes, scales, second, SecondScale::times, joiner);
  }
  join_fp8(settings, joiner);
}

}  // namespace regauge::io
