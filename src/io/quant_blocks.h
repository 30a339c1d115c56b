#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "half.h"

// Scales inside the blocks of GGUF's quantised types. A scale has 11 significant bits, a sub-scale
// at most 7 and a code or level at most 7, all in all no more than 24, so that their products are
// exact in float: neither the order of the factors nor fused multiply-add changes a bit.
namespace regauge::io {

inline std::uint16_t u16_at(const std::uint8_t* block, std::size_t offset) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, block + offset, sizeof(bits));
  return bits;
}

inline std::uint32_t u32_at(const std::uint8_t* block, std::size_t offset) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, block + offset, sizeof(bits));
  return bits;
}

inline float scale_at(const std::uint8_t* block, std::size_t offset) {
  return f16_to_float(u16_at(block, offset));
}

inline float signed_value(std::uint8_t byte) {
  return static_cast<float>(static_cast<std::int8_t>(byte));
}

struct SubScale {
  float scale, minimum;
  int scale_factor, minimum_factor;
};

// Sub-block `i` of 8 in the 16-byte head (d, dmin, 12 packed bytes) of a Q4_K or Q5_K block:
// six-bit factors of d and dmin; those of the last four keep their upper two bits with the first
// four.
inline SubScale sub_scale(const std::uint8_t* head, std::size_t i) {
  const std::uint8_t* packed = head + 4;
  const std::size_t j = i & 3;
  int scale = 0, minimum = 0;
  if (i < 4) {
    scale = packed[j] & 63;
    minimum = packed[j + 4] & 63;
  } else {
    scale = (packed[j + 8] & 15) | ((packed[j] >> 2) & 48);
    minimum = (packed[j + 8] >> 4) | ((packed[j + 4] >> 2) & 48);
  }
  return {scale_at(head, 0) * static_cast<float>(scale),
          scale_at(head, 2) * static_cast<float>(minimum), scale, minimum};
}

// A scale of a run: a factor of its block's unit.
struct Factor {
  float unit = 0;
  int factor = 0;
  float scale() const { return unit * static_cast<float>(factor); }
};

// Run `i` of 16 of a Q3_K block: the low four bits of the scales in 8 bytes, the high two in 4.
inline Factor q3_k_scale(const std::uint8_t* block, std::size_t i) {
  const std::uint8_t* packed = block + 96;
  const int low = (packed[i % 8] >> (i < 8 ? 0 : 4)) & 15;
  const int high = (packed[8 + i % 4] >> (2 * (i / 4))) & 3;
  return {scale_at(block, 108), (low | high << 4) - 32};
}

// Run `i` of 8 of an IQ4_XS block.
inline Factor iq4_xs_scale(const std::uint8_t* block, std::size_t i) {
  const int low = (block[4 + i / 2] >> (4 * (i % 2))) & 15;
  const int high = (u16_at(block, 2) >> (2 * i)) & 3;
  return {scale_at(block, 0), (low | high << 4) - 32};
}

// Half of the power of two that an MXFP4 block begins with: its levels are doubled.
float mxfp4_scale(std::uint8_t exponent);
// Half of a scale of NVFP4, a float of four bits of exponent and three of mantissa.
float nvfp4_scale(std::uint8_t bits);

// The levels of IQ4_NL and IQ4_XS by their codes.
inline constexpr std::int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
// Those of MXFP4 and NVFP4, doubled.
inline constexpr std::int8_t kFp4Levels[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                               0, -1, -2, -3, -4, -6, -8, -12};

// Blocks of the IQ types with codebooks, as numbers; and the scale of run `i`: of 16 numbers
// (IQ1_M, IQ2_XS, IQ2_S) or 32.
void iq1_s(const std::uint8_t* block, float* out);
void iq1_m(const std::uint8_t* block, float* out);
void iq2_xxs(const std::uint8_t* block, float* out);
void iq2_xs(const std::uint8_t* block, float* out);
void iq2_s(const std::uint8_t* block, float* out);
void iq3_xxs(const std::uint8_t* block, float* out);
void iq3_s(const std::uint8_t* block, float* out);
float iq1_s_scale(const std::uint8_t* block, std::size_t i);
float iq1_m_scale(const std::uint8_t* block, std::size_t i);
float iq2_xxs_scale(const std::uint8_t* block, std::size_t i);
float iq2_xs_scale(const std::uint8_t* block, std::size_t i);
float iq2_s_scale(const std::uint8_t* block, std::size_t i);
float iq3_xxs_scale(const std::uint8_t* block, std::size_t i);
float iq3_s_scale(const std::uint8_t* block, std::size_t i);
// Of the eight numbers from 8 `i` on, whether an eighth of the scale is taken away or added.
bool iq1_s_below(const std::uint8_t* block, std::size_t i);
bool iq1_m_below(const std::uint8_t* block, std::size_t i);

}  // namespace regauge::io
