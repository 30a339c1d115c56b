#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "sha256_blocks.h"

// Pieces of the compression function that its kernels share. Forced inline, so that each is
// compiled for the instructions of the kernel that it becomes part of.
#define REGAUGE_INLINE inline __attribute__((always_inline))

namespace regauge::io {

// Vectors are passed only to functions that become part of their caller.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

REGAUGE_INLINE std::uint32_t big_endian_word(const std::byte* bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
}

// Word is std::uint32_t or a vector of them.
template <class Word>
REGAUGE_INLINE Word turned_right(const Word& x, int by) {
  return x >> by | x << (32 - by);
}

template <class Word>
REGAUGE_INLINE Word schedule_0(const Word& x) {
  return turned_right(x, 7) ^ turned_right(x, 18) ^ x >> 3;
}

template <class Word>
REGAUGE_INLINE Word schedule_1(const Word& x) {
  return turned_right(x, 17) ^ turned_right(x, 19) ^ x >> 10;
}

// w[i mod 16] becomes w_{i+16} = s1(w_{i+14}) + w_{i+9} + s0(w_{i+1}) + w_i.
template <class Word>
REGAUGE_INLINE void next_word(std::array<Word, 16>& w, std::size_t i) {
  w[i % 16] += schedule_1(w[(i + 14) % 16]) + w[(i + 9) % 16] + schedule_0(w[(i + 1) % 16]);
}

// One round, in which `word` is w_i + K_i. The caller renames the variables for the next one.
template <class Word>
REGAUGE_INLINE void round_of(const Word& a, const Word& b, const Word& c, Word& d, const Word& e,
                             const Word& f, const Word& g, Word& h, const Word& word) {
  h +=
      (turned_right(e, 6) ^ turned_right(e, 11) ^ turned_right(e, 25)) + (g ^ (e & (f ^ g))) + word;
  d += h;
  h += (turned_right(a, 2) ^ turned_right(a, 13) ^ turned_right(a, 22)) + ((a & b) | (c & (a | b)));
}

// Round I, where s holds (a, ..., h) rotated by I places.
template <std::size_t I, class Word>
REGAUGE_INLINE void round_in_place(std::array<Word, 8>& s, const Word& word) {
  constexpr std::size_t kPlace = 8 - I % 8;
  round_of<Word>(s[kPlace % 8], s[(kPlace + 1) % 8], s[(kPlace + 2) % 8], s[(kPlace + 3) % 8],
                 s[(kPlace + 4) % 8], s[(kPlace + 5) % 8], s[(kPlace + 6) % 8], s[(kPlace + 7) % 8],
                 word);
}

template <class Word, std::size_t... I>
REGAUGE_INLINE void next_words(std::array<Word, 16>& w, std::index_sequence<I...>) {
  (next_word(w, I), ...);
}

template <class Word, std::size_t... I>
REGAUGE_INLINE void sixteen_rounds(std::array<Word, 8>& s, const std::array<Word, 16>& w,
                                   const std::uint32_t* round, std::index_sequence<I...>) {
  (round_in_place<I, Word>(s, w[I] + round[I]), ...);
}

// Adds a block, whose words are w, to the state.
template <class Word>
REGAUGE_INLINE void add_block(std::array<Word, 8>& state, std::array<Word, 16>& w) {
  constexpr std::make_index_sequence<16> kAll;
  std::array<Word, 8> s = state;
  sixteen_rounds(s, w, kSha256Round.data(), kAll);
  for (std::size_t i = 16; i < 64; i += 16) {
    next_words(w, kAll);
    sixteen_rounds(s, w, kSha256Round.data() + i, kAll);
  }
  for (std::size_t i = 0; i < 8; ++i) state[i] += s[i];
}

#pragma GCC diagnostic pop

}  // namespace regauge::io
