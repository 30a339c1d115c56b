#include "sha256_blocks.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>
#include <immintrin.h>

#include "sha256_round.h"

// Vectors are passed only to functions that become part of their caller. Templates are compiled at
// the end, so that this holds to there.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace regauge::io {
namespace {

using EightWords [[gnu::vector_size(32)]] = std::uint32_t;

// Word i of the blocks that begin at bytes[0], ..., bytes[7].
[[gnu::target("avx2")]] REGAUGE_INLINE EightWords words_at(const std::byte* const* bytes,
                                                           std::size_t i) {
  return EightWords{big_endian_word(bytes[0] + 4 * i), big_endian_word(bytes[1] + 4 * i),
                    big_endian_word(bytes[2] + 4 * i), big_endian_word(bytes[3] + 4 * i),
                    big_endian_word(bytes[4] + 4 * i), big_endian_word(bytes[5] + 4 * i),
                    big_endian_word(bytes[6] + 4 * i), big_endian_word(bytes[7] + 4 * i)};
}

bool has_sha_bit() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1U << 29)) != 0;
}

}  // namespace

bool has_sha256_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi2") != 0;
}

bool has_sha256_instructions() { return __builtin_cpu_supports("sse4.1") != 0 && has_sha_bit(); }

// The words of eight blocks are made side by side; the rounds follow one another.
[[gnu::target("avx2,bmi,bmi2")]] void sha256_avx2(Sha256State& state, const std::byte* bytes,
                                                  std::size_t count) {
  for (; count >= kSha256Lanes; count -= kSha256Lanes, bytes += kSha256Lanes * kSha256Block) {
    const std::byte* blocks[kSha256Lanes];
    for (std::size_t lane = 0; lane < kSha256Lanes; ++lane) {
      blocks[lane] = bytes + lane * kSha256Block;
    }
    std::array<EightWords, 16> w;
    for (std::size_t i = 0; i < 16; ++i) w[i] = words_at(blocks, i);
    alignas(32) std::uint32_t words[64][kSha256Lanes];
    for (std::size_t i = 0; i < 64; ++i) {
      const EightWords word = w[i % 16] + kSha256Round[i];
      std::memcpy(words[i], &word, sizeof word);
      next_word(w, i);
    }
    for (std::size_t lane = 0; lane < kSha256Lanes; ++lane) {
      Sha256State s = state;
      for (std::size_t i = 0; i < 64; i += 8) {
        round_in_place<0>(s, words[i][lane]);
        round_in_place<1>(s, words[i + 1][lane]);
        round_in_place<2>(s, words[i + 2][lane]);
        round_in_place<3>(s, words[i + 3][lane]);
        round_in_place<4>(s, words[i + 4][lane]);
        round_in_place<5>(s, words[i + 5][lane]);
        round_in_place<6>(s, words[i + 6][lane]);
        round_in_place<7>(s, words[i + 7][lane]);
      }
      for (std::size_t i = 0; i < 8; ++i) state[i] += s[i];
    }
  }
  sha256_portable(state, bytes, count);
}

[[gnu::target("avx2")]] void sha256_avx2_lanes(Sha256State* states, const std::byte* const* bytes,
                                               std::size_t count) {
  std::array<EightWords, 8> state;
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t lane = 0; lane < kSha256Lanes; ++lane) state[i][lane] = states[lane][i];
  }
  const std::byte* blocks[kSha256Lanes];
  for (std::size_t block = 0; block < count; ++block) {
    for (std::size_t lane = 0; lane < kSha256Lanes; ++lane) {
      blocks[lane] = bytes[lane] + block * kSha256Block;
    }
    std::array<EightWords, 16> w;
    for (std::size_t i = 0; i < 16; ++i) w[i] = words_at(blocks, i);
    add_block(state, w);
  }
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t lane = 0; lane < kSha256Lanes; ++lane) states[lane][i] = state[i][lane];
  }
}

// The processor's own instructions: the state is held as (a, b, e, f) and (c, d, g, h), each pair
// of instructions does four rounds.
[[gnu::target("sha,sse4.1,ssse3")]] void sha256_instructions(Sha256State& state,
                                                             const std::byte* bytes,
                                                             std::size_t count) {
  const auto load = [](const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  };
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  const __m128i badc = _mm_shuffle_epi32(load(state.data()), 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(load(state.data() + 4), 0x1b);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
  for (; count > 0; --count, bytes += kSha256Block) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (std::size_t i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(load(bytes + 16 * i), swap);
    for (std::size_t i = 0; i < 16; ++i) {
      __m128i& first = w[i % 4];
      const __m128i second = w[(i + 1) % 4], third = w[(i + 2) % 4], last = w[(i + 3) % 4];
      const __m128i words = _mm_add_epi32(first, load(kSha256Round.data() + 4 * i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, words);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(words, 0x0e));
      first = _mm_sha256msg2_epu32(
          _mm_add_epi32(_mm_sha256msg1_epu32(first, second), _mm_alignr_epi8(last, third, 4)),
          last);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data()), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data() + 4), _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace regauge::io

#endif
