#pragma once

#include <cstddef>
#include <cstdint>

namespace regauge::io {

// Arrays of 16-bit floats from and to float, `count` elements; the byte side need not be aligned.
// Writing rounds to nearest even; NaN stays NaN (made quiet, upper payload bits kept).
void read_bf16(const std::byte* bytes, float* values, std::size_t count);
void write_bf16(const float* values, std::byte* bytes, std::size_t count);
void read_f16(const std::byte* bytes, float* values, std::size_t count);
void write_f16(const float* values, std::byte* bytes, std::size_t count);

float f16_to_float(std::uint16_t bits);

// double -> float such that rounding the result again to f16 or bf16 equals rounding the double
// once: inexact results are truncated and get an odd last bit ("round to odd").
void narrow_to_odd(const double* values, float* narrowed, std::size_t count);

}  // namespace regauge::io
