#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <span>
#include <string>

#include "regauge/io/dtype.h"

namespace regauge::io {

// "F32 [2, 2]"
inline std::string describe(DType dtype, std::span<const std::int64_t> shape) {
  return fmt::format("{} [{}]", dtype_name(dtype), fmt::join(shape, ", "));
}

}  // namespace regauge::io
