#pragma once

#include <cstddef>
#include <span>

#include "regauge/io/dtype.h"

namespace regauge::io {

// Whole blocks of a quantised type as floats, bit for bit as gguf-py's gguf.quants.dequantize.
void dequantise(DType dtype, std::span<const std::byte> bytes, float* values);

// The sum over all elements of the squared step between neighbouring codes, as the scales of their
// blocks have it.
double squared_steps(DType dtype, std::span<const std::byte> bytes);

}  // namespace regauge::io
