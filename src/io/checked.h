#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace regauge::io {

// a * b and a + b, or nothing when the result does not fit.
inline std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}
inline std::optional<std::int64_t> sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// The number of elements of a shape; nothing for a negative dimension or on overflow.
inline std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape) {
  std::optional<std::int64_t> count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || !(count = product(*count, size))) return std::nullopt;
  }
  return count;
}

}  // namespace regauge::io
