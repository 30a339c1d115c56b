#include "grouped.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace regauge::io {
namespace {

// Rows that are decoded together: those whose codes share cache lines where streams run down.
constexpr std::int64_t kPanelRows = 16, kPanelRowsDown = 64, kPanelNumbers = 4096;
constexpr std::size_t kWorthATable = 24;  // numbers that share a scale

// What dividing by the scale in its type may be off by, relative to the quotient.
double division_error(DType type) {
  switch (type) {
    case DType::bf16:
      return 0x1p-8;
    case DType::f16:
      return 0x1p-11;
    default:
      return 0x1p-22;
  }
}

}  // namespace

// The scales and zeros of a window, for each row and each group of columns.
class Grouped::Scales {
 public:
  Scales(const Plan& plan, std::span<const Numbers> parts) : plan_(plan), parts_(parts) {}

  void read(const Window& window) {
    const Blocks& blocks = plan_.blocks;
    const bool all = !plan_.groups.empty();
    first_group_ = all ? 0 : window.col / blocks.cols;
    const std::int64_t last_col = all ? plan_.shape.cols : window.col + window.cols;
    groups_ = all ? 1 + *std::max_element(plan_.groups.begin(), plan_.groups.end())
                  : (last_col - 1) / blocks.cols - first_group_ + 1;
    first_row_ = window.row / blocks.rows;
    rows_ = (window.row + window.rows - 1) / blocks.rows - first_row_ + 1;
    const std::int64_t first = window.matrix * blocks.matrix_stride +
                               first_row_ * blocks.row_stride + first_group_ * blocks.col_stride;
    read_all(plan_.scales, first, scales_);
    if (plan_.second) scale_again();
    if (plan_.zeros) read_all(plan_.zeros, first, zeros_);
    if (plan_.scale_errors) read_all(plan_.scale_errors, first, errors_);
    if (plan_.packed_zeros) read_zeros({window.matrix, first_row_, rows_, first_group_, groups_});
  }

  // Of a row of the matrix: its scale of group g is at place + g, and so are the others.
  std::size_t place(std::int64_t row) const {
    return static_cast<std::size_t>((row / plan_.blocks.rows - first_row_) * groups_ -
                                    first_group_);
  }
  float scale(std::size_t at) const { return scales_[at]; }
  float zero(std::size_t at) const { return zeros_.empty() ? 0 : zeros_[at]; }
  float error(std::size_t at) const { return errors_.empty() ? 0 : errors_[at]; }

 private:
  void scale_again() {
    float one = 0;
    parts_[plan_.second->part].decode<float>({&one, 1});
    for (float& scale : scales_) scale = plan_.second->divides ? scale / one : scale * one;
  }

  void read_zeros(const Window& groups) {
    const PackedZeros& zeros = *plan_.packed_zeros;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(groups.rows * groups.cols));
    zeros.codes.read(parts_[zeros.part].bytes(), groups, codes);
    zeros_.resize(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i) zeros_[i] = zeros.values[codes[i]];
  }

  void read_all(const Read& read, std::int64_t first, std::vector<float>& values) {
    const Blocks& blocks = plan_.blocks;
    values.resize(static_cast<std::size_t>(rows_ * groups_));
    if (blocks.row_stride != 1 || rows_ == 1) {
      for (std::int64_t row = 0; row < rows_; ++row) {
        read(parts_, first + row * blocks.row_stride, blocks.col_stride,
             std::span(values).subspan(static_cast<std::size_t>(row * groups_),
                                       static_cast<std::size_t>(groups_)));
      }
      return;
    }
    std::vector<float> column(static_cast<std::size_t>(rows_));
    for (std::int64_t group = 0; group < groups_; ++group) {
      read(parts_, first + group * blocks.col_stride, 1, column);
      for (std::int64_t row = 0; row < rows_; ++row) {
        values[static_cast<std::size_t>(row * groups_ + group)] =
            column[static_cast<std::size_t>(row)];
      }
    }
  }

  const Plan& plan_;
  std::span<const Numbers> parts_;
  std::int64_t first_row_ = 0, rows_ = 0, first_group_ = 0, groups_ = 0;
  std::vector<float> scales_, zeros_, errors_;
};

Grouped::Read Grouped::plain(std::size_t part) {
  return [part](std::span<const Numbers> parts, std::int64_t first, std::int64_t stride,
                std::span<float> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    if (stride == 1) return parts[part].range(first, count).decode<float>(values);
    const auto size = static_cast<std::size_t>(block_bytes(parts[part].dtype()));
    const auto bytes = parts[part].bytes();
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(first + i * stride) * size;
      regauge::decode<float>(parts[part].dtype(), bytes.subspan(at, size),
                             values.subspan(static_cast<std::size_t>(i), 1));
    }
  };
}

Grouped::Read Grouped::powers_of_two(std::size_t part) {
  return [part](std::span<const Numbers> parts, std::int64_t first, std::int64_t stride,
                std::span<float> values) {
    const auto bytes = parts[part].bytes();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::size_t>(first + static_cast<std::int64_t>(i) * stride);
      values[i] = std::ldexp(1.0F, static_cast<int>(bytes[at]) - 127);
    }
  };
}

// Calls use(i, codes, scale, zero, error) for every run of numbers from `first` on that share a
// scale: the codes of numbers i, i + 1, ...
template <class Use>
void Grouped::for_each_run(std::span<const Numbers> parts, std::int64_t first, std::size_t count,
                           Use use) const {
  const auto& [matrices, rows, cols] = plan_.shape;
  const auto bytes = parts[0].bytes();
  Scales scales(plan_, parts);
  std::vector<std::uint8_t> codes;
  const auto total = static_cast<std::int64_t>(count);
  const std::int64_t most_rows =
      std::max(plan_.codes.along_rows ? kPanelRows : kPanelRowsDown, kPanelNumbers / cols);
  for (std::int64_t done = 0; done < total;) {
    const std::int64_t at = first + done, left = total - done;
    const std::int64_t row = at / cols % rows, col = at % cols;
    Window window{at / cols / rows, row, 1, col, std::min(cols - col, left)};
    if (col == 0 && left >= cols) {
      const std::int64_t one_scale =
          plan_.blocks.rows > 1 ? plan_.blocks.rows - row % plan_.blocks.rows : rows;
      window.rows = std::min({most_rows, left / cols, rows - row, one_scale});
    }
    codes.resize(static_cast<std::size_t>(window.rows * window.cols));
    plan_.codes.read(bytes, window, codes);
    scales.read(window);
    const bool ordered = plan_.groups.empty();
    for (std::int64_t i = 0; i < window.rows; ++i) {
      const std::int64_t of_row = i * window.cols;
      const std::size_t place = scales.place(row + i);
      std::int64_t group = ordered ? window.col / plan_.blocks.cols : 0;
      std::int64_t end = (group + 1) * plan_.blocks.cols - window.col;
      for (std::int64_t j = 0; j < window.cols;) {
        if (!ordered) {
          group = plan_.groups[static_cast<std::size_t>(window.col + j)];
          end = j + 1;
        }
        end = std::min(end, window.cols);
        const std::size_t shared = place + static_cast<std::size_t>(group);
        use(static_cast<std::size_t>(done + of_row + j),
            std::span<const std::uint8_t>(codes).subspan(static_cast<std::size_t>(of_row + j),
                                                         static_cast<std::size_t>(end - j)),
            scales.scale(shared), scales.zero(shared), scales.error(shared));
        j = end;
        end += plan_.blocks.cols;
        ++group;
      }
    }
    done += window.rows * window.cols;
  }
}

void Grouped::decode(std::span<const Numbers> parts, std::int64_t first,
                     std::span<float> values) const {
  const float* const grid = plan_.grid.values.data();
  const bool added = plan_.added;
  const float factor = plan_.factor;
  const auto number = [=](std::uint8_t code, float scale, float zero) {
    return added ? grid[code] * scale + zero : (grid[code] - zero) * scale * factor;
  };
  std::array<float, 16> table;
  const std::size_t distinct = plan_.grid.values.size();
  const auto use = [&](std::size_t i, std::span<const std::uint8_t> run, float scale, float zero,
                       float) {
    float* const to = values.data() + i;
    const std::uint8_t* const codes = run.data();
    const std::size_t count = run.size();
    if (distinct <= table.size() && count >= kWorthATable) {
      for (std::size_t code = 0; code < distinct; ++code) {
        table[code] = number(static_cast<std::uint8_t>(code), scale, zero);
      }
      const float* const numbers = table.data();
      for (std::size_t k = 0; k < count; ++k) to[k] = numbers[codes[k]];
    } else if (!added && zero == 0 && factor == 1) {
      for (std::size_t k = 0; k < count; ++k) to[k] = grid[codes[k]] * scale;
    } else {
      for (std::size_t k = 0; k < count; ++k) to[k] = number(codes[k], scale, zero);
    }
  };
  for_each_run(parts, first, values.size(), use);
}

void Grouped::rounding_bounds(std::span<const Numbers> parts, std::int64_t first,
                              std::span<const double> values, std::span<double> below,
                              std::span<double> above) const {
  const Grid& grid = plan_.grid;
  const double division = division_error(plan_.divided_in);
  const auto use = [&](std::size_t i, std::span<const std::uint8_t> codes, float scale, float zero,
                       float error) {
    const double factor = std::abs(static_cast<double>(plan_.factor));
    const double size = std::abs(static_cast<double>(scale)) * factor;
    for (std::size_t k = 0; k < codes.size(); ++k) {
      const std::size_t code = codes[k];
      // A zero is added to the quotient, and both are rounded; all that the scale is multiplied by
      // is rounded once more.
      const double value = std::abs(static_cast<double>(grid.values[code]));
      const double slack = division * (std::abs(values[i + k]) + (zero == 0 ? 0 : size * value)) +
                           error * factor * (value + std::max(grid.below[code], grid.above[code]));
      const double down = grid.below[code] * size, up = grid.above[code] * size;
      below[i + k] = (scale < 0 ? up : down) + slack;
      above[i + k] = (scale < 0 ? down : up) + slack;
    }
  };
  for_each_run(parts, first, values.size(), use);
}

void Grouped::block_ends(std::span<const Numbers> parts, std::int64_t first,
                         std::span<const double> values, std::span<signed char> ends) const {
  std::fill(ends.begin(), ends.end(), static_cast<signed char>(0));
  if (!plan_.cuts_off) return;
  for_each_run(parts, first, values.size(),
               [&](std::size_t i, std::span<const std::uint8_t> codes, float scale, float, float) {
                 for (std::size_t k = 0; k < codes.size(); ++k) {
                   const signed char end = plan_.grid.ends[codes[k]];
                   ends[i + k] = scale < 0 ? static_cast<signed char>(-end) : end;
                 }
               });
}

}  // namespace regauge::io
