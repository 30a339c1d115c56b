#include "quants.h"

#include <cstdint>
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
          scale_at(head, 2) * static_cast<float>(minimum)};
}

void q4_k(const std::uint8_t* block, float* out) {
  for (std::size_t sub = 0; sub < 8; ++sub) {
    const auto [d, m] = sub_scale(block, sub);
    const std::uint8_t* codes = block + 16 + 32 * (sub / 2);
    const int shift = 4 * static_cast<int>(sub & 1);
    for (std::size_t i = 0; i < 32; ++i) {
      out[32 * sub + i] = d * static_cast<float>((codes[i] >> shift) & 15) - m;
    }
  }
}

void q5_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* high = block + 16;
  for (std::size_t sub = 0; sub < 8; ++sub) {
    const auto [d, m] = sub_scale(block, sub);
    const std::uint8_t* codes = block + 48 + 32 * (sub / 2);
    const int shift = 4 * static_cast<int>(sub & 1);
    for (std::size_t i = 0; i < 32; ++i) {
      const int code = ((codes[i] >> shift) & 15) | ((high[i] >> sub) & 1) << 4;
      out[32 * sub + i] = d * static_cast<float>(code) - m;
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

// The same of one block.
double squared_steps_of_block(DType dtype, const std::uint8_t* block) {
  const auto square = [](float step) { return static_cast<double>(step) * step; };
  double sum = 0;
  switch (dtype) {
    case DType::q4_k:
    case DType::q5_k:
      for (std::size_t sub = 0; sub < 8; ++sub) sum += 32 * square(sub_scale(block, sub).scale);
      return sum;
    case DType::q6_k:
      for (std::size_t part = 0; part < 16; ++part) {
        sum += 16 * square(scale_at(block, 208) * signed_value(block[192 + part]));
      }
      return sum;
    default:
      return 32 * square(scale_at(block, 0));
  }
}

}  // namespace

double squared_steps(DType dtype, std::span<const std::byte> bytes) {
  const auto block_size = static_cast<std::size_t>(block_bytes(dtype));
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  double sum = 0;
  for (std::size_t i = 0; i < bytes.size() / block_size; ++i) {
    sum += squared_steps_of_block(dtype, data + i * block_size);
  }
  return sum;
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
