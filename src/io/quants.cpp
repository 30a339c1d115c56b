#include "quants.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "quant_blocks.h"

namespace regauge::io {
namespace {

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

void q8_1(const std::uint8_t* block, float* out) {  // beside the scale: the sum of the numbers
  const float d = scale_at(block, 0);
  for (std::size_t i = 0; i < 32; ++i) out[i] = signed_value(block[4 + i]) * d;
}

void q8_k(const std::uint8_t* block, float* out) {
  const float d = std::bit_cast<float>(u32_at(block, 0));
  for (std::size_t i = 0; i < 256; ++i) out[i] = signed_value(block[4 + i]) * d;
}

void q1_0(const std::uint8_t* block, float* out) {
  const float d = scale_at(block, 0);
  const float by_sign[2] = {-d, d};
  for (std::size_t byte = 0; byte < 16; ++byte) {
    const unsigned signs = block[2 + byte];
    for (std::size_t i = 0; i < 8; ++i) out[8 * byte + i] = by_sign[(signs >> i) & 1];
  }
}

// 32 two-bit codes in bits `shift` and above of 32 bytes; runs of 16 with a scale each.
void q2_k(const std::uint8_t* block, float* out) {
  const float d = scale_at(block, 80), minimum = scale_at(block, 82);
  for (std::size_t run = 0; run < 16; ++run) {
    const float scale = d * static_cast<float>(block[run] & 15);
    const float least = minimum * static_cast<float>(block[run] >> 4);
    const std::uint8_t* codes = block + 16 + 32 * (run / 8) + 16 * (run % 2);
    const int shift = 2 * static_cast<int>(run / 2 % 4);
    for (std::size_t i = 0; i < 16; ++i) {
      out[16 * run + i] = scale * static_cast<float>((codes[i] >> shift) & 3) - least;
    }
  }
}

// As Q2_K, with a third bit that is set where 4 is not taken away.
void q3_k(const std::uint8_t* block, float* out) {
  for (std::size_t run = 0; run < 16; ++run) {
    const float scale = q3_k_scale(block, run).scale();
    const std::uint8_t* high = block + 16 * (run % 2);
    const std::uint8_t* low = block + 32 + 32 * (run / 8) + 16 * (run % 2);
    const int shift = 2 * static_cast<int>(run / 2 % 4), bit = static_cast<int>(run / 2);
    for (std::size_t i = 0; i < 16; ++i) {
      const int code = ((low[i] >> shift) & 3) + 4 * ((high[i] >> bit) & 1);
      out[16 * run + i] = scale * static_cast<float>(code - 4);
    }
  }
}

// Five digits of base three in a byte, as the fraction byte / 256: times three, the integer part is
// the next one.
void ternary_digits(const std::uint8_t* bytes, std::size_t count, int digits, float d, float* out) {
  unsigned power = 1;
  for (int digit = 0; digit < digits; ++digit, power *= 3) {
    for (std::size_t i = 0; i < count; ++i) {
      const unsigned fraction = bytes[i] * power & 255;
      *out++ = d * static_cast<float>(static_cast<int>(fraction * 3 >> 8) - 1);
    }
  }
}

void tq1_0(const std::uint8_t* block, float* out) {
  const float d = scale_at(block, 52);
  ternary_digits(block, 32, 5, d, out);
  ternary_digits(block + 32, 16, 5, d, out + 160);
  ternary_digits(block + 48, 4, 4, d, out + 240);
}

void tq2_0(const std::uint8_t* block, float* out) {
  const float d = scale_at(block, 64);
  for (std::size_t row = 0; row < 8; ++row) {
    const std::uint8_t* codes = block + 32 * (row / 4);
    const int shift = 2 * static_cast<int>(row % 4);
    for (std::size_t i = 0; i < 32; ++i) {
      out[32 * row + i] = d * static_cast<float>(((codes[i] >> shift) & 3) - 1);
    }
  }
}

// Nibbles that stand for levels, the low ones of `bytes` bytes first.
void by_level(const std::uint8_t* codes, std::size_t bytes, float d, const std::int8_t* levels,
              float* out) {
  float numbers[16];
  for (std::size_t i = 0; i < 16; ++i) numbers[i] = d * static_cast<float>(levels[i]);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = numbers[codes[i] & 15];
    out[i + bytes] = numbers[codes[i] >> 4];
  }
}

void iq4_nl(const std::uint8_t* block, float* out) {
  by_level(block + 2, 16, scale_at(block, 0), kIq4Levels, out);
}

void iq4_xs(const std::uint8_t* block, float* out) {
  for (std::size_t run = 0; run < 8; ++run) {
    const float scale = iq4_xs_scale(block, run).scale();
    by_level(block + 8 + 16 * run, 16, scale, kIq4Levels, out + 32 * run);
  }
}

void mxfp4(const std::uint8_t* block, float* out) {
  by_level(block + 1, 16, mxfp4_scale(block[0]), kFp4Levels, out);
}

void nvfp4(const std::uint8_t* block, float* out) {
  for (std::size_t run = 0; run < 4; ++run) {
    by_level(block + 4 + 8 * run, 8, nvfp4_scale(block[run]), kFp4Levels, out + 16 * run);
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
    case DType::q2_k:
      return q2_k;
    case DType::q3_k:
      return q3_k;
    case DType::q8_k:
      return q8_k;
    case DType::q8_1:
      return q8_1;
    case DType::q1_0:
      return q1_0;
    case DType::iq1_s:
      return iq1_s;
    case DType::iq1_m:
      return iq1_m;
    case DType::iq2_xxs:
      return iq2_xxs;
    case DType::iq2_xs:
      return iq2_xs;
    case DType::iq2_s:
      return iq2_s;
    case DType::iq3_xxs:
      return iq3_xxs;
    case DType::iq3_s:
      return iq3_s;
    case DType::iq4_nl:
      return iq4_nl;
    case DType::iq4_xs:
      return iq4_xs;
    case DType::tq1_0:
      return tq1_0;
    case DType::tq2_0:
      return tq2_0;
    case DType::mxfp4:
      return mxfp4;
    case DType::nvfp4:
      return nvfp4;
    default:
      return nullptr;
  }
}

}  // namespace

float mxfp4_scale(std::uint8_t exponent) {
  const std::uint32_t bits =
      exponent < 2 ? 0x200000u << exponent : static_cast<std::uint32_t>(exponent - 1) << 23;
  return std::bit_cast<float>(bits);
}

float nvfp4_scale(std::uint8_t bits) {
  static const auto scales = [] {
    std::array<float, 256> all{};
    for (int i = 0; i < 256; ++i) {
      const int exponent = (i >> 3) & 15, mantissa = i & 7;
      const auto significand = static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa);
      all[static_cast<std::size_t>(i)] =
          i == 0x7f ? 0 : std::ldexp(significand, std::max(exponent, 1) - 11);
    }
    return all;
  }();
  return scales[bits];
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
