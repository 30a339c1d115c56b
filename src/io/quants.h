#pragma once

#include <cstddef>
#include <span>

#include "regauge/io/dtype.h"

namespace regauge::io {

// Whole blocks of a quantised type as floats, bit for bit as gguf-py's gguf.quants.dequantize.
void dequantise(DType dtype, std::span<const std::byte> bytes, float* values);

}  // namespace regauge::io
