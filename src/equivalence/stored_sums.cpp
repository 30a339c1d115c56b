#include "stored_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

namespace regauge {
namespace {

constexpr std::int64_t kBlock = 4096;  // numbers summed in float; a multiple of every stored block

template <int Lanes>
struct Register;
template <>
struct Register<4> {
  using Floats [[gnu::vector_size(16)]] = float;
  using Words [[gnu::vector_size(16)]] = std::uint32_t;
};
template <>
struct Register<8> {
  using Floats [[gnu::vector_size(32)]] = float;
  using Words [[gnu::vector_size(32)]] = std::uint32_t;
};
template <>
struct Register<16> {
  using Floats [[gnu::vector_size(64)]] = float;
  using Words [[gnu::vector_size(64)]] = std::uint32_t;
};

// One kernel, compiled for several processors by inlining it into functions for each. `Stored` is
// float, or std::uint16_t for bf16; Lanes floats fill a register.
template <class Stored, int Lanes>
[[gnu::always_inline]] inline void sum_block(const std::byte* a, const std::byte* b,
                                             std::int64_t count, Sums& sums) {
  using Floats = typename Register<Lanes>::Floats;
  using Words = typename Register<Lanes>::Words;
  constexpr std::int64_t kStep = 2 * Lanes;
  Floats aa[2] = {}, bb[2] = {}, dd[2] = {};
  std::int64_t at = 0;
  for (; at + kStep <= count; at += kStep) {
    for (int half = 0; half < 2; ++half) {
      Floats x, y;
      if constexpr (sizeof(Stored) == sizeof(float)) {
        std::memcpy(&x, a + 4 * (at + half * Lanes), sizeof x);
        std::memcpy(&y, b + 4 * (at + half * Lanes), sizeof y);
      } else {  // the lower halves of words, then the upper ones
        Words in_x, in_y;
        std::memcpy(&in_x, a + 2 * at, sizeof in_x);
        std::memcpy(&in_y, b + 2 * at, sizeof in_y);
        in_x = half == 0 ? in_x << 16 : in_x & 0xffff0000u;
        in_y = half == 0 ? in_y << 16 : in_y & 0xffff0000u;
        std::memcpy(&x, &in_x, sizeof x);
        std::memcpy(&y, &in_y, sizeof y);
      }
      const Floats d = x - y;
      aa[half] += x * x;
      bb[half] += y * y;
      dd[half] += d * d;
    }
  }
  aa[0] += aa[1];
  bb[0] += bb[1];
  dd[0] += dd[1];
  for (int lane = 0; lane < Lanes; ++lane) {
    sums.aa += aa[0][lane];
    sums.bb += bb[0][lane];
    sums.dd += dd[0][lane];
  }
  for (; at < count; ++at) {
    const auto value = [&](const std::byte* from) {
      std::uint32_t bits = 0;
      constexpr std::size_t kLow = sizeof(float) - sizeof(Stored);
      std::memcpy(reinterpret_cast<std::byte*>(&bits) + kLow,
                  from + at * static_cast<std::int64_t>(sizeof(Stored)), sizeof(Stored));
      float number = 0;
      std::memcpy(&number, &bits, sizeof number);
      return static_cast<double>(number);
    };
    const double x = value(a), y = value(b);
    sums.aa += x * x;
    sums.bb += y * y;
    sums.dd += (x - y) * (x - y);
  }
}

template <class Stored>
using Kernel = void (*)(const std::byte*, const std::byte*, std::int64_t, Sums&);

template <class Stored>
void sum_block_plain(const std::byte* a, const std::byte* b, std::int64_t count, Sums& sums) {
  sum_block<Stored, 4>(a, b, count, sums);
}

#if defined(__x86_64__)
template <class Stored>
[[gnu::target("avx2,fma")]] void sum_block_avx2(const std::byte* a, const std::byte* b,
                                                std::int64_t count, Sums& sums) {
  sum_block<Stored, 8>(a, b, count, sums);
}
template <class Stored>
[[gnu::target("avx512f,avx512bw,fma")]] void sum_block_avx512(const std::byte* a,
                                                              const std::byte* b,
                                                              std::int64_t count, Sums& sums) {
  sum_block<Stored, 16>(a, b, count, sums);
}
#endif

template <class Stored>
Kernel<Stored> kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
    return sum_block_avx512<Stored>;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return sum_block_avx2<Stored>;
  }
#endif
  return sum_block_plain<Stored>;
}

std::int64_t bytes_of(DType type, std::int64_t count) {
  return count / block_elements(type) * block_bytes(type);
}

}  // namespace

bool Sums::are_sound(std::int64_t count) const {
  constexpr double kSmallest = 1e-20;  // a mean square; float ends at 1e-38
  return std::isfinite(aa + bb + dd) && std::min(aa, bb) >= kSmallest * static_cast<double>(count);
}

void add_stored_sums(DType type_a, const std::byte* a, DType type_b, const std::byte* b,
                     std::int64_t count, Sums& sums) {
  static const auto of_floats = kernel<float>();
  static const auto of_bf16 = kernel<std::uint16_t>();
  const bool same = type_a == type_b;
  std::array<float, kBlock> buffer_a, buffer_b;
  // Floats as they stand, others decoded.
  const auto floats = [](DType type, const std::byte* from, std::int64_t n, auto& buffer) {
    if (type == DType::f32) return from;
    decode<float>(type, {from, static_cast<std::size_t>(bytes_of(type, n))},
                  std::span(buffer).first(static_cast<std::size_t>(n)));
    return reinterpret_cast<const std::byte*>(buffer.data());
  };
  for (std::int64_t at = 0; at < count; at += kBlock) {
    const std::int64_t n = std::min(kBlock, count - at);
    const std::byte* from_a = a + bytes_of(type_a, at);
    const std::byte* from_b = b + bytes_of(type_b, at);
    if (same && type_a == DType::bf16) {
      of_bf16(from_a, from_b, n, sums);
    } else {
      of_floats(floats(type_a, from_a, n, buffer_a), floats(type_b, from_b, n, buffer_b), n, sums);
    }
  }
}

}  // namespace regauge
