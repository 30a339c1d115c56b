#include "quants.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "half.h"

// A scale has 11 significant bits, a sub-scale at most 7 and a code at most 6, so every product
// below is exact in float: neither the order of the factors nor fused multiply-add changes a bit.
namespace regauge::io {
namespace {

float scale_at(const std::uint8_t* block, std::size_t offset) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, block + offset, sizeof(bits));
  return f16_to_float(bits);
}

float signed_value(std::uint8_t byte) { return static_cast<float>(static_cast<std::int8_t>(byte)); }

void q8_0(const std::uint8_t* block, float* out) {
  const float d = scale_at(block, 0);
  for (std::size_t i = 0; i < 32; ++i) out[i] = signed_value(block[2 + i]) * d;
}

void q4_0(const std::uint8_t* block, float* out) {
  const float d = scale_at(block, 0);
  const std::uint8_t* codes = block + 2;
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((codes[i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((codes[i] >> 4) - 8);
  }
}

void q4_1(const std::uint8_t* block, float* out) {
  const float d = scale_at(block, 0);
  const float m = scale_at(block, 2);
  const std::uint8_t* codes = block + 4;
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(codes[i] & 15) + m;
    out[i + 16] = d * static_cast<float>(codes[i] >> 4) + m;
  }
}

// The 32 five-bit codes of a Q5_0 or Q5_1 block: 32 fifth bits, then 16 bytes of nibbles.
void five_bit_codes(const std::uint8_t* packed, int* codes) {
  std::uint32_t high = 0;
  std::memcpy(&high, packed, sizeof(high));
  for (std::size_t i = 0; i < 16; ++i) {
    const std::uint8_t low = packed[4 + i];
    codes[i] = (low & 15) | static_cast<int>((high >> i) & 1u) << 4;
    codes[i + 16] = (low >> 4) | static_cast<int>((high >> (i + 16)) & 1u) << 4;
  }
}

void q5_0(const std::uint8_t* block, float* out) {
  const float d = scale_at(block, 0);
  int codes[32];
  five_bit_codes(block + 2, codes);
  for (std::size_t i = 0; i < 32; ++i) out[i] = d * static_cast<float>(codes[i] - 16);
}

void q5_1(const std::uint8_t* block, float* out) {
  const float d = scale_at(block, 0);
  const float m = scale_at(block, 2);
  int codes[32];
  five_bit_codes(block + 4, codes);
  for (std::size_t i = 0; i < 32; ++i) out[i] = d * static_cast<float>(codes[i]) + m;
}

struct SubScale {
  float scale, minimum;
  int scale_factor, minimum_factor;
};

// Sub-block `i` of 8 in the 16-byte head (d, dmin, 12 packed bytes) of a Q4_K or Q5_K block:
// six-bit factors of d and dmin; those of the last four keep their upper two bits with the first
// four.
SubScale sub_scale(const std::uint8_t* head, std::size_t i) {
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

void q4_k(const std::uint8_t* block, float* out) {
  for (std::size_t sub = 0; sub < 8; ++sub) {
    const SubScale scales = sub_scale(block, sub);
    const std::uint8_t* codes = block + 16 + 32 * (sub / 2);
    const int shift = 4 * static_cast<int>(sub & 1);
    for (std::size_t i = 0; i < 32; ++i) {
      out[32 * sub + i] =
          scales.scale * static_cast<float>((codes[i] >> shift) & 15) - scales.minimum;
    }
  }
}

void q5_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* high = block + 16;
  for (std::size_t sub = 0; sub < 8; ++sub) {
    const SubScale scales = sub_scale(block, sub);
    const std::uint8_t* codes = block + 48 + 32 * (sub / 2);
    const int shift = 4 * static_cast<int>(sub & 1);
    for (std::size_t i = 0; i < 32; ++i) {
      const int code = ((codes[i] >> shift) & 15) | ((high[i] >> sub) & 1) << 4;
      out[32 * sub + i] = scales.scale * static_cast<float>(code) - scales.minimum;
    }
  }
}

void q6_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* low = block;
  const std::uint8_t* high = block + 128;
  const std::uint8_t* scales = block + 192;
  const float d = scale_at(block, 208);
  for (std::size_t row = 0; row < 8; ++row) {  // 32 codes each; four rows share the bytes of a half
    const std::size_t half = row / 4, quarter = row % 4;
    const std::uint8_t* nibbles = low + 64 * half + 32 * (quarter % 2);
    const int low_shift = quarter < 2 ? 0 : 4;
    const int high_shift = 2 * static_cast<int>(quarter);
    for (std::size_t part = 0; part < 2; ++part) {
      const float scale = d * signed_value(scales[2 * row + part]);
      for (std::size_t i = 16 * part; i < 16 * part + 16; ++i) {
        const int code =
            ((nibbles[i] >> low_shift) & 15) | ((high[32 * half + i] >> high_shift) & 3) << 4;
        out[32 * row + i] = scale * static_cast<float>(code - 32);
      }
    }
  }
}

using Block = void (*)(const std::uint8_t*, float*);

Block block_function(DType dtype) {
  switch (dtype) {
    case DType::q8_0:
      return q8_0;
    case DType::q4_0:
      return q4_0;
    case DType::q4_1:
      return q4_1;
    case DType::q5_0:
      return q5_0;
    case DType::q5_1:
      return q5_1;
    case DType::q4_k:
      return q4_k;
    case DType::q5_k:
      return q5_k;
    case DType::q6_k:
      return q6_k;
    default:
      return nullptr;
  }
}

// The most that rounding to F16 takes from a scale. Scales are often below its normal numbers.
double half_error(float scale) {
  return std::max(0x1p-11 * std::abs(static_cast<double>(scale)), 0x1p-25);
}

// Codes that the block uses, by their distance from what stands for zero (or from the first).
struct Reach {
  int lowest = 1 << 20, highest = -(1 << 20);
};
Reach reach_of(const float* values, std::size_t count, float origin, float step) {
  Reach reach;
  if (step == 0) return {0, 0};
  for (std::size_t i = 0; i < count; ++i) {
    const int code = static_cast<int>(std::lround((values[i] - origin) / step));
    reach.lowest = std::min(reach.lowest, code);
    reach.highest = std::max(reach.highest, code);
  }
  return reach;
}

// Where codes around zero leave out those that the quantiser would have used.
void set_used(Run& run, Reach reach, int farthest, double expected) {
  const double share =
      static_cast<double>(std::max(std::abs(reach.lowest), std::abs(reach.highest))) / farthest;
  run.used = share < expected ? share : 1;
}

// One scale for 32 numbers, chosen from their extremes and rounded to F16 afterwards.
void plain_run(DType dtype, const std::uint8_t* block, const float* values, Run& run) {
  constexpr double kExtreme = 0.9;  // the extreme code is always used
  run.step = scale_at(block, 0);
  run.step_error = half_error(scale_at(block, 0));
  const double step = std::abs(run.step);
  if (dtype == DType::q8_0) {
    run.first_code = -127;
    run.last_code = 127;
    set_used(run, reach_of(values, 32, 0, run.step), 127, kExtreme);
    return;
  }
  const bool symmetric = dtype == DType::q4_0 || dtype == DType::q5_0;
  const int codes = dtype == DType::q4_0 || dtype == DType::q4_1 ? 16 : 32;
  if (symmetric) {
    run.first_code = -codes / 2;
    run.last_code = codes / 2 - 1;
    run.cut_last = (step + run.step_error) / 2;  // an extreme of the other sign
    set_used(run, reach_of(values, 32, 0, run.step), codes / 2, kExtreme);
    return;
  }
  run.origin = scale_at(block, 2);
  run.origin_error = half_error(run.origin);
  run.last_code = codes - 1;
  const Reach reach = reach_of(values, 32, run.origin, run.step);
  const double share = static_cast<double>(reach.highest - reach.lowest) / (codes - 1);
  run.used = share < kExtreme ? share : 1;
}

// Scales of sub-blocks are multiples of the block's, which is rounded to F16; codes are chosen for
// the scale as stored. A sub-block whose scale or minimum was rounded has its extremes cut off, and
// the search for the scale cuts up to a step.
constexpr double kReach =
    0.8;  // of the codes: the search for the scale may leave the last ones out
constexpr double kSearch = 1.0;  // steps

// What rounding takes from `factor` times the block's `unit`; the factor itself is rounded by at
// most `rounding`.
double factor_error(float unit, int factor, double rounding = 0.5) {
  const double error = half_error(unit);
  return rounding * (std::abs(unit) + error) + std::abs(factor) * error;
}

void set_sub_run(Run& run, Reach reach, int farthest, double step_error, double origin_error) {
  const double step = std::abs(run.step);
  const double least = kReach * (step - step_error) - origin_error / farthest;
  set_used(run, reach, farthest, step > 0 ? least / step : 0);
  run.cut_first = run.cut_last =
      kSearch * step * run.used + (farthest + kSearch) * step_error + origin_error;
}

}  // namespace

std::size_t runs_of(DType dtype, std::span<const std::byte> bytes, Run* runs) {
  const auto* block = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::array<float, 256> values;
  dequantise(dtype, bytes, values.data());
  switch (dtype) {
    case DType::q4_k:
    case DType::q5_k:
      for (std::size_t sub = 0; sub < 8; ++sub) {
        const SubScale scales = sub_scale(block, sub);
        Run& run = runs[sub] = {};
        run.step = scales.scale;
        run.origin = -scales.minimum;
        run.last_code = dtype == DType::q4_k ? 15 : 31;
        set_sub_run(run, reach_of(values.data() + 32 * sub, 32, run.origin, run.step),
                    run.last_code, factor_error(scale_at(block, 0), scales.scale_factor),
                    factor_error(scale_at(block, 2), scales.minimum_factor));
      }
      return 8;
    case DType::q6_k:
      for (std::size_t part = 0; part < 16; ++part) {
        const float unit = scale_at(block, 208), factor = signed_value(block[192 + part]);
        Run& run = runs[part] = {};
        run.step = unit * factor;
        run.first_code = -32;
        run.last_code = 31;
        // A factor of 128 is stored as 127.
        set_sub_run(run, reach_of(values.data() + 16 * part, 16, 0, run.step), 32,
                    factor_error(unit, static_cast<int>(factor), factor == 127 ? 1.5 : 0.5), 0);
      }
      return 16;
    default:
      runs[0] = {};
      plain_run(dtype, block, values.data(), runs[0]);
      return 1;
  }
}

void dequantise(DType dtype, std::span<const std::byte> bytes, float* values) {
  const Block block = block_function(dtype);
  const auto block_size = static_cast<std::size_t>(block_bytes(dtype));
  const auto elements = static_cast<std::size_t>(block_elements(dtype));
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  for (std::size_t i = 0; i < bytes.size() / block_size; ++i) {
    block(data + i * block_size, values + i * elements);
  }
}

}  // namespace regauge::io
