#include "grouped.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace regauge::io {
namespace {

// Rows that are decoded together: those whose codes share cache lines where streams run down, or
// have their words side by side.
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
    static const auto powers = [] {
      std::array<float, 256> all;
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = std::ldexp(1.0F, static_cast<int>(i) - 127);
      }
      return all;
    }();
    const auto bytes = parts[part].bytes();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::size_t>(first + static_cast<std::int64_t>(i) * stride);
      values[i] = powers[static_cast<std::size_t>(bytes[at])];
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
  const bool in_a_row = plan_.codes.along_rows && plan_.codes.word_bytes == 4;
  const std::int64_t most_rows =
      std::max(in_a_row ? kPanelRows : kPanelRowsDown, kPanelNumbers / cols);
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

namespace {

// The numbers of a run of codes; `value` says what a code stands for. Without a table the compiler
// takes many at a time.
template <class Code, class Value>
void put_run(std::span<const Code> codes, float scale, float zero, bool added, float factor,
             Value value, float* to) {
  const std::size_t count = codes.size();
  const Code* const from = codes.data();
  if (added) {
    for (std::size_t k = 0; k < count; ++k) to[k] = value(from[k]) * scale + zero;
  } else if (factor != 1) {
    for (std::size_t k = 0; k < count; ++k) to[k] = (value(from[k]) - zero) * scale * factor;
  } else if (zero != 0) {
    for (std::size_t k = 0; k < count; ++k) to[k] = (value(from[k]) - zero) * scale;
  } else {
    for (std::size_t k = 0; k < count; ++k) to[k] = value(from[k]) * scale;
  }
}

}  // namespace

void Grouped::decode(std::span<const Numbers> parts, std::int64_t first,
                     std::span<float> values) const {
  const Grid& grid = plan_.grid;
  const int least = static_cast<int>(grid.values.front());
  std::array<float, 16> table;
  const auto use = [&](std::size_t i, std::span<const std::uint8_t> run, float scale, float zero,
                       float) {
    const auto put = [&](auto value) {
      put_run(run, scale, zero, plan_.added, plan_.factor, value, values.data() + i);
    };
    if (grid.integers == Grid::Integers::from_first) {
      put([least](std::uint8_t code) { return static_cast<float>(code + least); });
    } else if (grid.integers == Grid::Integers::with_sign) {
      put([](std::uint8_t code) { return static_cast<float>(static_cast<std::int8_t>(code)); });
    } else if (grid.values.size() <= table.size() && run.size() >= kWorthATable) {
      for (std::size_t code = 0; code < grid.values.size(); ++code) {
        const auto one = static_cast<std::uint8_t>(code);
        put_run(
            std::span<const std::uint8_t>(&one, 1), scale, zero, plan_.added, plan_.factor,
            [&](std::uint8_t at) { return grid.values[at]; }, &table[code]);
      }
      const float* const numbers = table.data();
      float* const to = values.data() + i;
      for (std::size_t k = 0; k < run.size(); ++k) to[k] = numbers[run[k]];
    } else {
      // Looked up first, so that the products go many at a time.
      float* const to = values.data() + i;
      const float* const numbers = grid.values.data();
      for (std::size_t k = 0; k < run.size(); ++k) to[k] = numbers[run[k]];
      put_run(
          std::span<const float>(to, run.size()), scale, zero, plan_.added, plan_.factor,
          [](float value) { return value; }, to);
    }
  };
  for_each_run(parts, first, values.size(), use);
}

Grouped::Least Grouped::of_integers(int bits, DType divided_in, double floor) {
  const double least = 1 - 1.5 / ((1 << bits) - 1) - 2 * division_error(divided_in);
  return [=](float scale) { return std::abs(scale) > floor ? std::max(least, 0.0) : 0; };
}

Grouped::Least Grouped::of_all(double share) {
  return [=](float scale) { return scale != 0 ? share : 0; };
}

Grouped::Least Grouped::of_powers_or(double share, double floor) {
  return [=](float scale) {
    int exponent = 0;
    const bool power = std::abs(std::frexp(scale, &exponent)) == 0.5F;
    return std::abs(scale) > floor ? (power ? share / 2 : share) : 0;
  };
}

// The codes that a block uses, as numbers, and what else it has.
struct Grouped::Reached {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();
  float scale = 0, zero = 0;
  std::int64_t first = -1;
};

std::int64_t Grouped::block_of(std::int64_t number) const {
  const auto& [matrices, rows, cols] = plan_.shape;
  const std::int64_t row = number / cols, col = number % cols;
  const std::int64_t bands = (rows - 1) / plan_.blocks.rows + 1;
  const std::int64_t band = row / rows * bands + row % rows / plan_.blocks.rows;
  const std::int64_t group =
      plan_.groups.empty() ? col / plan_.blocks.cols : plan_.groups[static_cast<std::size_t>(col)];
  return band * cols + group;
}

// Of the range of codes: of a block with a zero from the lower end to the higher, counting the zero
// (a zero in the middle may be that of a range that is as long on both sides); else of the size.
double Grouped::share_of(const Reached& reached) const {
  const auto [low, high, scale, zero, first] = reached;
  const auto& values = plan_.grid.values;
  if (plan_.added) return double{high - low} / (values.back() - values.front());
  if (!plan_.zeros && !plan_.packed_zeros) {
    return std::max(std::abs(low), std::abs(high)) / plan_.grid.reach();
  }
  const auto [least, most] = std::ranges::minmax(values);
  const double used = std::max(high, zero) - std::min(low, zero);
  const double share = used / (most - least);
  if (zero != std::ceil((least + most) / 2)) return share;
  return std::max<double>(share, std::max(high - zero, zero - low) / (most - zero));
}

Grouped::Needed Grouped::find_needed(std::span<const Numbers> parts) const {
  Needed needed;
  const auto& [matrices, rows, cols] = plan_.shape;
  float second = 1;
  if (plan_.second) {
    parts[plan_.second->part].decode<float>({&second, 1});
    if (!plan_.second->divides) second = 1 / second;
  }
  std::unordered_map<std::int64_t, Reached> band;  // of the blocks that began and have not ended
  std::int64_t in_band = -1;
  const auto close = [&] {
    for (const auto& [block, reached] : band) {
      ++needed.count.blocks;
      const double share = share_of(reached);
      if (!(share < plan_.least(reached.scale * second))) continue;
      needed.shares.emplace(block, share);
      if (share == 0) continue;  // zeros, whose step is any
      ++needed.count.unearned;
      if (needed.count.first < 0 || reached.first < needed.count.first) {
        needed.count.first = reached.first;
      }
    }
    band.clear();
  };
  const auto& values = plan_.grid.values;
  const auto use = [&](std::size_t i, std::span<const std::uint8_t> codes, float scale, float zero,
                       float) {
    const std::int64_t block = block_of(static_cast<std::int64_t>(i));
    if (const std::int64_t row = block / plan_.shape.cols; row != in_band) {
      close();
      in_band = row;
    }
    Reached& reached = band[block];
    if (reached.first < 0) reached.first = static_cast<std::int64_t>(i);
    reached.scale = scale;
    reached.zero = zero;
    for (const std::uint8_t code : codes) {
      reached.low = std::min(reached.low, values[code]);
      reached.high = std::max(reached.high, values[code]);
    }
  };
  for_each_run(parts, 0, static_cast<std::size_t>(matrices * rows * cols), use);
  close();
  return needed;
}

const Grouped::Needed& Grouped::needed(std::span<const Numbers> parts) const {
  std::call_once(is_needed_found_, [&] {
    if (plan_.least) needed_ = find_needed(parts);
  });
  return needed_;
}

void Grouped::rounding_bounds(std::span<const Numbers> parts, std::int64_t first,
                              std::span<const double> values, std::span<double> below,
                              std::span<double> above) const {
  const Grid& grid = plan_.grid;
  const double division = division_error(plan_.divided_in);
  const auto& shares = needed(parts).shares;
  const auto use = [&](std::size_t i, std::span<const std::uint8_t> codes, float scale, float zero,
                       float error) {
    const auto unearned =
        shares.empty() ? shares.end() : shares.find(block_of(first + static_cast<std::int64_t>(i)));
    const double factor = std::abs(static_cast<double>(plan_.factor));
    const double size = std::abs(static_cast<double>(scale)) * factor;
    for (std::size_t k = 0; k < codes.size(); ++k) {
      const std::size_t code = codes[k];
      // A zero is added to the quotient, and both are rounded; all that the scale is multiplied by
      // is rounded once more.
      const double value = std::abs(static_cast<double>(grid.values[code]));
      const double slack = division * (std::abs(values[i + k]) + (zero == 0 ? 0 : size * value)) +
                           error * factor * (value + std::max(grid.below[code], grid.above[code]));
      double down = grid.below[code] * size, up = grid.above[code] * size;
      if (unearned != shares.end()) {
        const double most = grid.needed(code, unearned->second) * size;
        down = std::min(down, most);
        up = std::min(up, most);
      }
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
