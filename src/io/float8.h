#pragma once

#include <cstddef>

#include "regauge/io/dtype.h"

namespace regauge::io {

// `count` floats of eight bits as floats, exactly: f8_e4m3 (no infinities, the NaN that torch calls
// float8_e4m3fn), f8_e5m2, or f8_e8m0 (a power of two).
void read_f8(DType dtype, const std::byte* bytes, float* values, std::size_t count);

}  // namespace regauge::io
