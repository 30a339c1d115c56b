#include "half.h"

#include <bit>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace regauge::io {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

std::uint16_t bf16_from_bits(std::uint32_t bits) {
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40u : rounded);
}

// Subnormal halves are built as 2^-14 + x and the 2^-14 subtracted, which is exact and meets no
// subnormal float.
std::uint32_t bits_from_f16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = half & 0x7c00u;
  std::uint32_t bits = ((half & 0x7fffu) << 13) + ((127u - 15u) << 23);
  if (exponent == 0x7c00u) {
    bits += (128u - 16u) << 23;
    if ((half & 0x3ffu) != 0) bits |= 0x400000u;
  } else if (exponent == 0) {
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits + (1u << 23)) - 0x1p-14f);
  }
  return bits | sign;
}

// Subnormal halves come from adding 0.5 = 2^23 half ulps, which lets the adder round.
std::uint16_t f16_from_bits(std::uint32_t bits) {
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= (127u + 16u) << 23) {
    half = 0x7c00u;
  } else if (magnitude < (127u - 14u) << 23) {
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - ((127u - 15u) << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(half | sign);
}

template <class Out, class In, class Convert>
void convert_each(const void* in, void* out, std::size_t count, Convert convert) {
  for (std::size_t i = 0; i < count; ++i) {
    In value;
    std::memcpy(&value, static_cast<const char*>(in) + i * sizeof(In), sizeof(In));
    const Out result = convert(value);
    std::memcpy(static_cast<char*>(out) + i * sizeof(Out), &result, sizeof(Out));
  }
}

std::uint32_t bits_from_bf16(std::uint16_t half) { return std::uint32_t{half} << 16; }

float odd_from_double(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || std::isnan(value)) return nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(back) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

#if defined(__x86_64__)

#define REGAUGE_AVX2 __attribute__((target("avx2,f16c")))

bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") && has_f16c();
  return has;
}

// Each returns how many elements it did, a multiple of its width.
REGAUGE_AVX2 std::size_t read_bf16_avx2(const std::byte* bytes, float* values, std::size_t count) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (std::size_t half = 0; half < 16; half += 8) {
      const __m128i in = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 2 * (i + half)));
      const __m256i out = _mm256_slli_epi32(_mm256_cvtepu16_epi32(in), 16);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + i + half), out);
    }
  }
  return i;
}

REGAUGE_AVX2 inline __m256i bf16_lanes(const float* values) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
  const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256 x = _mm256_castsi256_ps(bits);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, nan);
}

REGAUGE_AVX2 std::size_t write_bf16_avx2(const float* values, std::byte* bytes, std::size_t count) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    // packus works within 128-bit halves; the permutation puts the four quarters in order.
    const __m256i packed = _mm256_packus_epi32(bf16_lanes(values + i), bf16_lanes(values + i + 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes + 2 * i),
                        _mm256_permute4x64_epi64(packed, 0xd8));
  }
  return i;
}

REGAUGE_AVX2 std::size_t read_f16_avx2(const std::byte* bytes, float* values, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i in = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 2 * i));
    _mm256_storeu_ps(values + i, _mm256_cvtph_ps(in));
  }
  return i;
}

REGAUGE_AVX2 std::size_t write_f16_avx2(const float* values, std::byte* bytes, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i out = _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + 2 * i), out);
  }
  return i;
}

// The even 32-bit lanes of a 256-bit comparison of doubles.
REGAUGE_AVX2 inline __m128i narrow_mask(__m256d mask) {
  const __m128 low = _mm_castpd_ps(_mm256_castpd256_pd128(mask));
  const __m128 high = _mm_castpd_ps(_mm256_extractf128_pd(mask, 1));
  return _mm_castps_si128(_mm_shuffle_ps(low, high, 0x88));
}

REGAUGE_AVX2 std::size_t narrow_to_odd_avx2(const double* values, float* narrowed,
                                            std::size_t count) {
  const __m256d sign = _mm256_set1_pd(-0.0);
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m256d value = _mm256_loadu_pd(values + i);
    const __m128 nearest = _mm256_cvtpd_ps(value);
    const __m256d back = _mm256_cvtps_pd(nearest);
    const __m256d larger =
        _mm256_cmp_pd(_mm256_andnot_pd(sign, back), _mm256_andnot_pd(sign, value), _CMP_GT_OQ);
    const __m256d inexact = _mm256_cmp_pd(back, value, _CMP_NEQ_OQ);
    // A mask is -1, so adding it takes one away.
    const __m128i truncated = _mm_add_epi32(_mm_castps_si128(nearest), narrow_mask(larger));
    const __m128i odd = _mm_and_si128(narrow_mask(inexact), _mm_set1_epi32(1));
    _mm_storeu_ps(narrowed + i, _mm_castsi128_ps(_mm_or_si128(truncated, odd)));
  }
  return i;
}

#define REGAUGE_VECTOR_PART(function, from, to, count) \
  (has_avx2() ? function##_avx2(from, to, count) : 0)
#else
#define REGAUGE_VECTOR_PART(function, from, to, count) 0
#endif

}  // namespace

void read_bf16(const std::byte* bytes, float* values, std::size_t count) {
  const std::size_t done = REGAUGE_VECTOR_PART(read_bf16, bytes, values, count);
  convert_each<std::uint32_t, std::uint16_t>(bytes + 2 * done, values + done, count - done,
                                             bits_from_bf16);
}

void write_bf16(const float* values, std::byte* bytes, std::size_t count) {
  const std::size_t done = REGAUGE_VECTOR_PART(write_bf16, values, bytes, count);
  convert_each<std::uint16_t, std::uint32_t>(values + done, bytes + 2 * done, count - done,
                                             bf16_from_bits);
}

void read_f16(const std::byte* bytes, float* values, std::size_t count) {
  const std::size_t done = REGAUGE_VECTOR_PART(read_f16, bytes, values, count);
  convert_each<std::uint32_t, std::uint16_t>(bytes + 2 * done, values + done, count - done,
                                             bits_from_f16);
}

void write_f16(const float* values, std::byte* bytes, std::size_t count) {
  const std::size_t done = REGAUGE_VECTOR_PART(write_f16, values, bytes, count);
  convert_each<std::uint16_t, std::uint32_t>(values + done, bytes + 2 * done, count - done,
                                             f16_from_bits);
}

float f16_to_float(std::uint16_t bits) { return std::bit_cast<float>(bits_from_f16(bits)); }

void narrow_to_odd(const double* values, float* narrowed, std::size_t count) {
  std::size_t i = REGAUGE_VECTOR_PART(narrow_to_odd, values, narrowed, count);
  for (; i < count; ++i) narrowed[i] = odd_from_double(values[i]);
}

}  // namespace regauge::io
