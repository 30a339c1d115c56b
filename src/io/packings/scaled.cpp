#include "scaled.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace regauge::io {
namespace {

// The scales of a row of blocks, decoded once for all rows that it covers.
class ScaleRow {
 public:
  ScaleRow(const Numbers& scales, const Scaled::Blocks& blocks)
      : scales_(scales), blocks_(blocks), row_(static_cast<std::size_t>(blocks.across())) {}

  const std::vector<float>& of(std::int64_t row) {
    const std::int64_t wanted = row / blocks_.block_rows;
    if (wanted != held_) {
      scales_.range(wanted * blocks_.across(), blocks_.across()).decode<float>(row_);
      held_ = wanted;
    }
    return row_;
  }

 private:
  const Numbers& scales_;
  const Scaled::Blocks& blocks_;
  std::vector<float> row_;
  std::int64_t held_ = -1;
};

// Calls use(i, count, scale) for every run of numbers from `first` on that share a scale.
template <class Use>
void for_each_run(const Scaled::Blocks& blocks, const Numbers& scales, std::int64_t first,
                  std::int64_t count, Use use) {
  ScaleRow row(scales, blocks);
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t at = first + i;
    const std::int64_t col = at % blocks.cols, block = col / blocks.block_cols;
    const std::int64_t end = std::min((block + 1) * blocks.block_cols, blocks.cols);
    const std::int64_t length = std::min(end - col, count - i);
    use(static_cast<std::size_t>(i), static_cast<std::size_t>(length),
        row.of(at / blocks.cols)[static_cast<std::size_t>(block)]);
    i += length;
  }
}

}  // namespace

std::string Scaled::name() const {
  const bool whole_rows = blocks_.block_cols >= blocks_.cols;
  const bool whole = whole_rows && blocks_.block_rows >= blocks_.rows;
  if (whole) return fmt::format("{} with one scale", dtype_name(codes_));
  if (whole_rows && blocks_.block_rows == 1) {
    return fmt::format("{} with a scale for each row", dtype_name(codes_));
  }
  return fmt::format("{} with a scale for each block of {} x {}", dtype_name(codes_),
                     blocks_.block_rows, blocks_.block_cols);
}

double Scaled::typical_rounding() const {
  switch (codes_) {
    case DType::f8_e4m3:
      return 2.6e-2;
    case DType::f8_e5m2:
      return 5.2e-2;
    default:
      return 1e-2;  // eight bits of an even grid
  }
}

void Scaled::decode(std::span<const Numbers> parts, std::int64_t first,
                    std::span<float> values) const {
  const auto count = static_cast<std::int64_t>(values.size());
  parts[0].range(first, count).decode<float>(values);
  for_each_run(blocks_, parts[1], first, count,
               [&](std::size_t begin, std::size_t length, float scale) {
                 for (float& value : values.subspan(begin, length)) value *= scale;
               });
}

void Scaled::rounding_bounds(std::span<const Numbers> parts, std::int64_t first,
                             std::span<const double> values, std::span<double> below,
                             std::span<double> above) const {
  const auto count = static_cast<std::int64_t>(values.size());
  const Numbers codes = parts[0].range(first, count);
  std::vector<double> units(values.size());
  codes.decode<double>(units);
  if (codes_ == DType::i8) {
    std::fill(below.begin(), below.end(), 0.5);
    std::fill(above.begin(), above.end(), 0.5);
  } else {
    codes.rounding_bounds(units, below, above);
  }
  for_each_run(blocks_, parts[1], first, count,
               [&](std::size_t begin, std::size_t length, float scale) {
                 const double size = std::abs(static_cast<double>(scale));
                 for (std::size_t i = begin; i < begin + length; ++i) {
                   if (scale < 0) std::swap(below[i], above[i]);
                   // The product is rounded to a float, too.
                   const double in_float = 0x1p-23 * std::abs(values[i]);
                   below[i] = below[i] * size + in_float;
                   above[i] = above[i] * size + in_float;
                 }
               });
}

}  // namespace regauge::io
