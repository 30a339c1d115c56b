#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "iq_tables.h"
#include "quant_blocks.h"

// GGUF's types with codebooks: 256 numbers in groups of eight or four, each group a codeword with
// signs (IQ2, IQ3) or a shift of an eighth (IQ1).
namespace regauge::io {
namespace {

// The codewords as levels of each number.
template <std::size_t Length, std::size_t Words, std::size_t Digits>
constexpr auto expanded(const std::array<std::uint16_t, Words>& words,
                        const std::array<std::int8_t, Digits>& levels) {
  constexpr int kBits = Digits == 8 ? 3 : 2;
  std::array<std::array<std::int8_t, Length>, Words> result{};
  for (std::size_t word = 0; word < Words; ++word) {
    for (std::size_t i = 0; i < Length; ++i) {
      result[word][i] = levels[(words[word] >> (kBits * i)) & ((1u << kBits) - 1)];
    }
  }
  return result;
}

constexpr std::array<std::int8_t, 3> kLevels1 = {-1, 0, 1};
constexpr std::array<std::int8_t, 3> kLevels2 = {8, 25, 43};
constexpr std::array<std::int8_t, 8> kLevels3Xxs = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr std::array<std::int8_t, 8> kLevels3S = {1, 3, 5, 7, 9, 11, 13, 15};
constexpr auto kWords1 = expanded<8>(kIq1, kLevels1);
constexpr auto kWords2Xxs = expanded<8>(kIq2Xxs, kLevels2);
constexpr auto kWords2Xs = expanded<8>(kIq2Xs, kLevels2);
constexpr auto kWords2S = expanded<8>(kIq2S, kLevels2);
constexpr auto kWords3Xxs = expanded<4>(kIq3Xxs, kLevels3Xxs);
constexpr auto kWords3S = expanded<4>(kIq3S, kLevels3S);

// 1 or -1 by the bits of a byte.
constexpr auto kSigns = [] {
  std::array<std::array<float, 8>, 256> result{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    for (std::size_t i = 0; i < 8; ++i) result[byte][i] = ((byte >> i) & 1) != 0 ? -1.0f : 1.0f;
  }
  return result;
}();

// Seven signs; the eighth makes the number of negative ones even.
constexpr auto kEightSigns = [] {
  std::array<std::uint8_t, 128> result{};
  for (unsigned seven = 0; seven < 128; ++seven) {
    const unsigned odd = static_cast<unsigned>(std::popcount(seven)) & 1;
    result[seven] = static_cast<std::uint8_t>(seven | odd << 7);
  }
  return result;
}();
unsigned eight_signs(std::uint32_t seven) { return kEightSigns[seven & 127]; }

void put(const std::array<std::int8_t, 8>& word, float scale, unsigned signs, float* out) {
  for (std::size_t i = 0; i < 8; ++i) {
    out[i] = scale * static_cast<float>(word[i]) * kSigns[signs][i];
  }
}

void put(const std::array<std::int8_t, 4>& first, const std::array<std::int8_t, 4>& second,
         float scale, unsigned signs, float* out) {
  for (std::size_t i = 0; i < 4; ++i) {
    out[i] = scale * static_cast<float>(first[i]) * kSigns[signs][i];
    out[i + 4] = scale * static_cast<float>(second[i]) * kSigns[signs][i + 4];
  }
}

void put(const std::array<std::int8_t, 8>& word, float scale, bool below, float* out) {
  const float shift = below ? -0.125f : 0.125f;
  for (std::size_t i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>(word[i]) + shift);
}

int nibble(const std::uint8_t* bytes, std::size_t i) {
  return (bytes[i / 2] >> (4 * (i % 2))) & 15;
}

float with_half(float d, int factor) { return d * (static_cast<float>(factor) + 0.5f); }
float odd(float d, int factor) { return d * static_cast<float>(2 * factor + 1); }

// The two high bits of codeword `i` of an IQ2_S block.
std::size_t iq2_s_index(const std::uint8_t* block, std::size_t i) {
  return block[2 + i] | static_cast<std::size_t>((block[66 + i / 4] >> (2 * (i % 4))) & 3) << 8;
}

std::size_t iq3_s_index(const std::uint8_t* block, std::size_t i) {
  return block[2 + i] | static_cast<std::size_t>((block[66 + i / 8] >> (i % 8)) & 1) << 8;
}

}  // namespace

float iq1_s_scale(const std::uint8_t* block, std::size_t i) {
  return odd(scale_at(block, 0), (u16_at(block, 34 + 2 * i) >> 12) & 7);
}
bool iq1_s_below(const std::uint8_t* block, std::size_t i) {
  return (u16_at(block, 34 + 2 * (i / 4)) & 0x8000) != 0;
}
void iq1_s(const std::uint8_t* block, float* out) {
  for (std::size_t i = 0; i < 32; ++i) {
    const int high = u16_at(block, 34 + 2 * (i / 4)) >> (3 * (i % 4));
    const std::size_t index = block[2 + i] | static_cast<std::size_t>(high & 7) << 8;
    put(kWords1[index], iq1_s_scale(block, i / 4), iq1_s_below(block, i), out + 8 * i);
  }
}

// The scale of the block is in the high four bits of the four words of scales.
float iq1_m_scale(const std::uint8_t* block, std::size_t i) {
  int d = 0;
  for (std::size_t word = 0; word < 4; ++word) {
    d |= (u16_at(block, 48 + 2 * word) >> 12) << (4 * word);
  }
  const int factor = u16_at(block, 48 + 2 * (i / 4)) >> (3 * (i % 4));
  return odd(f16_to_float(static_cast<std::uint16_t>(d)), factor & 7);
}
bool iq1_m_below(const std::uint8_t* block, std::size_t i) {
  return (nibble(block + 32, i) & 8) != 0;
}
void iq1_m(const std::uint8_t* block, float* out) {
  for (std::size_t run = 0; run < 16; ++run) {
    const float scale = iq1_m_scale(block, run);
    for (const std::size_t i : {2 * run, 2 * run + 1}) {
      const std::size_t index = block[i] | static_cast<std::size_t>(nibble(block + 32, i) & 7) << 8;
      put(kWords1[index], scale, iq1_m_below(block, i), out + 8 * i);
    }
  }
}

float iq2_xxs_scale(const std::uint8_t* block, std::size_t i) {
  return with_half(scale_at(block, 0), static_cast<int>(u32_at(block, 6 + 8 * i) >> 28)) * 0.25f;
}
void iq2_xxs(const std::uint8_t* block, float* out) {
  for (std::size_t run = 0; run < 8; ++run) {
    const float scale = iq2_xxs_scale(block, run);
    const std::uint8_t* codes = block + 2 + 8 * run;
    const std::uint32_t signs = u32_at(codes, 4);
    for (std::size_t i = 0; i < 4; ++i) {
      put(kWords2Xxs[codes[i]], scale, eight_signs(signs >> (7 * i)), out + 32 * run + 8 * i);
    }
  }
}

float iq2_xs_scale(const std::uint8_t* block, std::size_t i) {
  return with_half(scale_at(block, 0), nibble(block + 66, i)) * 0.25f;
}
void iq2_xs(const std::uint8_t* block, float* out) {
  for (std::size_t i = 0; i < 32; ++i) {
    const std::uint16_t code = u16_at(block, 2 + 2 * i);
    put(kWords2Xs[code & 511], iq2_xs_scale(block, i / 2), eight_signs(code >> 9), out + 8 * i);
  }
}

float iq2_s_scale(const std::uint8_t* block, std::size_t i) {
  return with_half(scale_at(block, 0), nibble(block + 74, i)) * 0.25f;
}
void iq2_s(const std::uint8_t* block, float* out) {
  for (std::size_t i = 0; i < 32; ++i) {
    put(kWords2S[iq2_s_index(block, i)], iq2_s_scale(block, i / 2), unsigned{block[34 + i]},
        out + 8 * i);
  }
}

float iq3_xxs_scale(const std::uint8_t* block, std::size_t i) {
  return with_half(scale_at(block, 0), static_cast<int>(u32_at(block, 66 + 4 * i) >> 28)) * 0.5f;
}
void iq3_xxs(const std::uint8_t* block, float* out) {
  for (std::size_t i = 0; i < 32; ++i) {
    const std::uint32_t signs = u32_at(block, 66 + 4 * (i / 4)) >> (7 * (i % 4));
    const std::uint8_t* codes = block + 2 + 2 * i;
    put(kWords3Xxs[codes[0]], kWords3Xxs[codes[1]], iq3_xxs_scale(block, i / 4), eight_signs(signs),
        out + 8 * i);
  }
}

float iq3_s_scale(const std::uint8_t* block, std::size_t i) {
  return odd(scale_at(block, 0), nibble(block + 106, i));
}
void iq3_s(const std::uint8_t* block, float* out) {
  for (std::size_t i = 0; i < 32; ++i) {
    put(kWords3S[iq3_s_index(block, 2 * i)], kWords3S[iq3_s_index(block, 2 * i + 1)],
        iq3_s_scale(block, i / 4), block[74 + i], out + 8 * i);
  }
}

}  // namespace regauge::io
