#include "rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "quants.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr double kEven = 1.0 / 12;  // the variance of an even distribution over [0, 1]
// Quantisers choose codes by a scale that is rounded to F16 afterwards, divide in float, and may
// take the other side where two codes are as near.
constexpr double kTie = 1e-3;  // steps
constexpr double kFloat = 0x1p-23;
// llama.cpp's converter writes F16 unless it is told otherwise, and its quantiser reads that.
constexpr double kHalf = 0x1p-11, kLeastHalf = 0x1p-25;

void require_length(DType dtype, std::size_t bytes, std::size_t numbers) {
  if (stored_bytes(dtype, static_cast<std::int64_t>(numbers)) != static_cast<std::int64_t>(bytes)) {
    throw UsageError(fmt::format("[rounding] {} bytes are not {} numbers of {}", bytes, numbers,
                                 dtype_name(dtype)));
  }
}

struct FloatType {
  double last_digit;  // beside a leading one
  double least;       // normal number
};

FloatType float_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {0x1p-52, 0x1p-1022};
    case DType::f32:
      return {0x1p-23, 0x1p-126};
    case DType::f16:
      return {0x1p-10, 0x1p-14};
    case DType::f8_e4m3:
      return {0x1p-3, 0x1p-6};
    case DType::f8_e5m2:
      return {0x1p-2, 0x1p-14};
    default:
      return {0x1p-7, 0x1p-126};  // bf16
  }
}

// The largest power of two that is no larger than |value|; 0 where that is no normal number.
double power_of_two_below(double value) {
  constexpr std::uint64_t kExponent = 0x7ff0'0000'0000'0000;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & kExponent);
}

// The unit in the last place of a finite number of this type.
double unit_of(double value, FloatType type) {
  return std::max(power_of_two_below(value), type.least) * type.last_digit;
}

void float_bounds(DType dtype, std::span<const double> values, std::span<double> below,
                  std::span<double> above) {
  const FloatType type = float_type(dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i], size = std::abs(value);
    const double half = size <= std::numeric_limits<double>::max() ? unit_of(value, type) / 2 : 0;
    // Numbers just below a power of two lie closer together.
    const bool edge = size == power_of_two_below(value) && size > type.least;
    const double inward = edge ? half / 2 : half;
    below[i] = value > 0 ? inward : half;
    above[i] = value > 0 ? half : inward;
  }
}

bool is_float(DType dtype) {
  return is_floating(dtype) || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}

// Numbers in runs that share a scale.
bool has_runs(DType dtype) {
  return is_quantised(dtype) && !is_float(dtype) && dtype != DType::f8_e8m0;
}

double most_code(const io::Run& run) { return std::max(-run.first_code, run.last_code); }

// Calls use(first, block) for every run of numbers with one scale.
template <class Use>
void for_each_run(DType dtype, std::span<const std::byte> bytes, Use use) {
  const auto size = static_cast<std::size_t>(block_bytes(dtype));
  const auto elements = static_cast<std::size_t>(block_elements(dtype));
  std::array<io::Run, io::kMostRuns> runs;
  for (std::size_t block = 0; block * size < bytes.size(); ++block) {
    const std::size_t count = io::runs_of(dtype, bytes.subspan(block * size, size), runs.data());
    const std::size_t length = elements / count;
    for (std::size_t i = 0; i < count; ++i) use(block * elements + i * length, length, runs[i]);
  }
}

}  // namespace

void rounding_bounds(DType dtype, std::span<const std::byte> bytes, std::span<const double> values,
                     std::span<double> below, std::span<double> above) {
  require_length(dtype, bytes.size(), values.size());
  require_length(dtype, bytes.size(), below.size());
  require_length(dtype, bytes.size(), above.size());
  if (is_float(dtype)) return float_bounds(dtype, values, below, above);
  if (!has_runs(dtype)) {
    std::fill(below.begin(), below.end(), 0);
    std::fill(above.begin(), above.end(), 0);
    return;
  }
  for_each_run(dtype, bytes, [&](std::size_t first, std::size_t length, const io::Run& run) {
    const double step = std::abs(run.step);
    const double half = (0.5 + kTie) * step * run.used + kFloat * std::abs(run.origin);
    for (std::size_t i = first; i < first + length; ++i) {
      // A step of zero hides the code.
      const double code =
          run.step != 0 ? std::round((values[i] - run.origin) / run.step) : most_code(run);
      const double read = std::max(kHalf * (std::abs(values[i]) + half), kLeastHalf);
      below[i] = above[i] =
          half + run.step_error * (std::abs(code) + 0.5) + run.origin_error + read;
      const bool first_code = run.step == 0 || code <= run.first_code;
      const bool last_code = run.step == 0 || code >= run.last_code;
      if (first_code) (run.step < 0 ? above : below)[i] += run.cut_first;
      if (last_code) (run.step < 0 ? below : above)[i] += run.cut_last;
    }
  });
}

void block_ends(DType dtype, std::span<const std::byte> bytes, std::span<const double> values,
                std::span<signed char> ends) {
  require_length(dtype, bytes.size(), values.size());
  require_length(dtype, bytes.size(), ends.size());
  std::fill(ends.begin(), ends.end(), static_cast<signed char>(0));
  if (!has_runs(dtype)) return;
  for_each_run(dtype, bytes, [&](std::size_t first, std::size_t length, const io::Run& run) {
    if (run.step == 0) return;
    const signed char upwards = run.step > 0 ? 1 : -1;
    for (std::size_t i = first; i < first + length; ++i) {
      const double code = std::round((values[i] - run.origin) / run.step);
      if (code <= run.first_code) ends[i] = static_cast<signed char>(-upwards);
      if (code >= run.last_code) ends[i] = upwards;
    }
  });
}

template <class Scalar>
void rounding_variances(DType dtype, std::span<const std::byte> bytes,
                        std::span<Scalar> variances) {
  require_length(dtype, bytes.size(), variances.size());
  if (has_runs(dtype)) {
    for_each_run(dtype, bytes, [&](std::size_t first, std::size_t length, const io::Run& run) {
      const double step = static_cast<double>(run.step) * run.used;
      // That of the scale, for a code in the middle of the range.
      const double scale = run.step_error * most_code(run) / 2;
      std::fill_n(variances.begin() + static_cast<std::ptrdiff_t>(first), length,
                  static_cast<Scalar>(kEven * (step * step + 4 * scale * scale)));
    });
    return;
  }
  if (!is_float(dtype)) return std::fill(variances.begin(), variances.end(), Scalar{0});
  const FloatType type = float_type(dtype);
  if (dtype == DType::bf16) {
    // The exponent's bits are those of a float. Squares of subnormal numbers are 0.
    constexpr auto kFactor = static_cast<Scalar>(kEven * 0x1p-14);
    for (std::size_t i = 0; i < variances.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 2 * i, sizeof bits);
      const auto power =
          static_cast<Scalar>(std::bit_cast<float>(std::uint32_t{bits & 0x7f80u} << 16));
      variances[i] = kFactor * power * power;
    }
    return;
  }
  if (dtype == DType::f16) {
    // The exponent alone decides.
    constexpr int kDigits = 10, kWidth = 15 - kDigits;
    std::array<Scalar, 1 << kWidth> table;
    for (int e = 0; e < 1 << kWidth; ++e) {
      const double unit = std::ldexp(1.0, std::max(e, 1) - ((1 << (kWidth - 1)) - 1) - kDigits);
      table[static_cast<std::size_t>(e)] = static_cast<Scalar>(kEven * unit * unit);
    }
    for (std::size_t i = 0; i < variances.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 2 * i, sizeof bits);
      // A zero is exact, or was smaller than anything.
      variances[i] = (bits & 0x7fffu) == 0
                         ? Scalar{0}
                         : table[static_cast<std::size_t>((bits & 0x7fffu) >> kDigits)];
    }
    return;
  }
  if (dtype == DType::f32) {
    constexpr std::uint32_t kSign = 0x8000'0000, kExponent = 0x7f80'0000;
    for (std::size_t i = 0; i < variances.size(); ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + 4 * i, sizeof bits);
      const std::uint32_t exponent = bits & kExponent;
      const bool none = (bits & ~kSign) == 0 || exponent == kExponent;  // zero, or no number
      const double power = std::max<double>(std::bit_cast<float>(exponent), type.least);
      const double unit = none ? 0 : power * type.last_digit;
      variances[i] = static_cast<Scalar>(kEven * unit * unit);
    }
    return;
  }
  std::vector<double> values(variances.size());
  decode<double>(dtype, bytes, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double unit = values[i] == 0 || !std::isfinite(values[i]) ? 0 : unit_of(values[i], type);
    variances[i] = static_cast<Scalar>(kEven * unit * unit);
  }
}
template void rounding_variances(DType, std::span<const std::byte>, std::span<float>);
template void rounding_variances(DType, std::span<const std::byte>, std::span<double>);

}  // namespace regauge
