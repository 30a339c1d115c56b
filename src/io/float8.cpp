#include "float8.h"

#include <array>
#include <cmath>
#include <limits>

namespace regauge::io {
namespace {

using Table = std::array<float, 256>;

// Sign, `exponent` bits, the rest digits.
float from_bits(int bits, int exponent_bits, int bias) {
  const int digits = 7 - exponent_bits;
  const int exponent = (bits & 0x7f) >> digits, digit = bits & ((1 << digits) - 1);
  const bool normal = exponent > 0;
  const int significand = digit + (normal ? 1 << digits : 0);
  const float size =
      std::ldexp(static_cast<float>(significand), (normal ? exponent : 1) - bias - digits);
  return (bits & 0x80) != 0 ? -size : size;
}

Table make_e4m3() {
  Table table;
  for (int bits = 0; bits < 256; ++bits) {
    const bool nan = (bits & 0x7f) == 0x7f;
    table[static_cast<std::size_t>(bits)] =
        nan ? std::numeric_limits<float>::quiet_NaN() : from_bits(bits, 4, 7);
  }
  return table;
}

Table make_e5m2() {
  Table table;
  for (int bits = 0; bits < 256; ++bits) {
    float value = from_bits(bits, 5, 15);
    if ((bits & 0x7c) == 0x7c) {
      value = (bits & 3) != 0 ? std::numeric_limits<float>::quiet_NaN()
                              : std::copysign(std::numeric_limits<float>::infinity(), value);
    }
    table[static_cast<std::size_t>(bits)] = value;
  }
  return table;
}

Table make_e8m0() {
  Table table;
  for (int bits = 0; bits < 255; ++bits) {
    table[static_cast<std::size_t>(bits)] = std::ldexp(1.0F, bits - 127);
  }
  table[255] = std::numeric_limits<float>::quiet_NaN();
  return table;
}

const Table& table_of(DType dtype) {
  static const Table e4m3 = make_e4m3(), e5m2 = make_e5m2(), e8m0 = make_e8m0();
  if (dtype == DType::f8_e4m3) return e4m3;
  return dtype == DType::f8_e5m2 ? e5m2 : e8m0;
}

}  // namespace

void read_f8(DType dtype, const std::byte* bytes, float* values, std::size_t count) {
  const Table& table = table_of(dtype);
  for (std::size_t i = 0; i < count; ++i) values[i] = table[static_cast<std::size_t>(bytes[i])];
}

}  // namespace regauge::io
