#include "misread.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "grouped.h"

namespace regauge::io {
namespace {

using Plan = Grouped::Plan;
using Blocks = Grouped::Blocks;

std::int64_t blocks_on(std::int64_t side, std::int64_t block) { return (side + block - 1) / block; }

Grouped::Read ones() {
  return [](std::span<const Numbers>, std::int64_t, std::int64_t, std::span<float> values) {
    std::ranges::fill(values, 1.0F);
  };
}

Grouped::Read inverted(Grouped::Read read) {
  return [read = std::move(read)](std::span<const Numbers> parts, std::int64_t first,
                                  std::int64_t stride, std::span<float> values) {
    read(parts, first, stride, values);
    for (float& value : values) value = 1 / value;
  };
}

class Misreadings {
 public:
  explicit Misreadings(const Plan& right) : right_(right) {}

  std::vector<Misreading> all() {
    scales();
    blocks();
    zeros();
    orders();
    return std::move(found_);
  }

 private:
  template <class Change>
  void add(Misread mistake, std::string what, bool undoes_itself, Change change) {
    Plan plan = right_;
    change(plan);
    found_.push_back(
        {mistake, std::move(what), undoes_itself, std::make_shared<Grouped>(std::move(plan))});
  }

  void scales() {
    add(Misread::no_scales, "the scales are not applied", false, [](Plan& plan) {
      plan.scales = ones();
      plan.second.reset();
      plan.factor = 1;
    });
    add(Misread::inverted_scales, "1 / scale is taken for the scale", true,
        [](Plan& plan) { plan.scales = inverted(plan.scales); });
    if (right_.second) {
      add(Misread::no_scales, "the scale of the scales is not applied", false,
          [](Plan& plan) { plan.second.reset(); });
      add(Misread::inverted_scales, "1 / scale is taken for the scale of the scales", true,
          [](Plan& plan) { plan.second->divides = !plan.second->divides; });
    }
    if (down() > 1 && down() == across() && right_.shape.matrices == 1) {
      add(Misread::transposed_scales, "the scales are transposed", true,
          [](Plan& plan) { std::swap(plan.blocks.row_stride, plan.blocks.col_stride); });
    }
  }

  std::int64_t down() const { return blocks_on(right_.shape.rows, right_.blocks.rows); }
  std::int64_t across() const { return blocks_on(right_.shape.cols, right_.blocks.cols); }

  // Other blocks of which there are as many, and wider ones, which leave scales over.
  void blocks() {
    if (!right_.groups.empty()) {
      add(Misread::other_blocks, "the groups of the columns (g_idx) are ignored", false,
          [](Plan& plan) { plan.groups.clear(); });
      return;
    }
    const Blocks& own = right_.blocks;
    constexpr std::array<std::int64_t, 6> kUsual = {16, 32, 64, 128, 256, 512};
    const auto sides = [&](std::int64_t side, std::int64_t block) {
      const std::int64_t count = blocks_on(side, block);
      std::set<std::int64_t> found = {block};
      if (block == 1 || block >= side) return found;
      found.insert(blocks_on(side, count));
      for (const std::int64_t usual : kUsual) {
        if (blocks_on(side, usual) == count) found.insert(usual);
      }
      return found;
    };
    for (const std::int64_t rows : sides(right_.shape.rows, own.rows)) {
      for (const std::int64_t cols : sides(right_.shape.cols, own.cols)) {
        take(rows, cols, own.row_stride, own.col_stride, true);
      }
    }
    if (right_.shape.matrices > 1) return;
    const std::int64_t turned_down = blocks_on(right_.shape.rows, own.cols);
    const std::int64_t turned_across = blocks_on(right_.shape.cols, own.rows);
    if (own.rows > 1 && own.col_stride == 1 && turned_down * turned_across == down() * across()) {
      take(own.cols, own.rows, turned_across, 1, true);
    }
    if (own.rows == 1) {
      for (const std::int64_t times : {2, 4}) {
        if (own.cols * times < right_.shape.cols) {
          take(1, own.cols * times, own.row_stride, own.col_stride, false);
        }
      }
    }
  }

  void take(std::int64_t rows, std::int64_t cols, std::int64_t row_stride, std::int64_t col_stride,
            bool undoes_itself) {
    const Blocks& own = right_.blocks;
    if (rows == own.rows && cols == own.cols) return;
    add(Misread::other_blocks,
        fmt::format("scales of blocks of {} x {} and of {} x {} are confused", rows, cols, own.rows,
                    own.cols),
        undoes_itself, [&](Plan& plan) {
          plan.blocks.rows = rows;
          plan.blocks.cols = cols;
          plan.blocks.row_stride = row_stride;
          plan.blocks.col_stride = col_stride;
        });
  }

  void zeros() {
    if (right_.zeros || right_.packed_zeros) {
      add(Misread::other_zeros,
          right_.added ? "the biases are not added" : "the zero points are not subtracted", false,
          [](Plan& plan) {
            plan.zeros = nullptr;
            plan.packed_zeros.reset();
          });
    }
    if (right_.packed_zeros) {
      add(Misread::other_zeros, "the zero points are one too large or too small", true,
          [](Plan& plan) { shift(*plan.packed_zeros, 1); });
      add(Misread::other_zeros, "the zero points are one too large or too small", true,
          [](Plan& plan) { shift(*plan.packed_zeros, -1); });
    }
    const int bits = right_.codes.bits;
    if (right_.grid.values != Grid::integers_around(bits).values) return;
    const int count = 1 << bits;
    const auto other = [&](const char* what, auto value) {
      add(Misread::other_zeros, what, false, [&](Plan& plan) {
        for (int code = 0; code < count; ++code) {
          plan.grid.values[static_cast<std::size_t>(code)] = static_cast<float>(value(code));
        }
      });
    };
    other("the codes are taken without their middle subtracted", [](int code) { return code; });
    other("the codes are taken as two's complement",
          [&](int code) { return code < count / 2 ? code : code - count; });
  }

  // As far as whole words hold them, with the carry that version 1 of GPTQ has.
  static void shift(Grouped::PackedZeros& zeros, int by) {
    const int bits = zeros.codes.bits;
    if (kWordBits % bits != 0) {
      const auto middle = by > 0 ? zeros.values.begin() + 1 : zeros.values.end() - 1;
      std::rotate(zeros.values.begin(), middle, zeros.values.end());
      return;
    }
    std::uint32_t word = 0;
    for (int at = 0; at < kWordBits; at += bits) word |= std::uint32_t{1} << at;
    zeros.codes.added += by > 0 ? word : ~word + 1;
  }

  void orders() {
    if (right_.codes.bits != 4) return;
    using Order = std::array<std::uint8_t, 8>;
    constexpr std::array kOrders = {
        std::pair{Order{0, 1, 2, 3, 4, 5, 6, 7}, "one after another"},
        std::pair{Order{1, 0, 3, 2, 5, 4, 7, 6}, "the upper half of a byte first"},
        std::pair{Order{0, 4, 1, 5, 2, 6, 3, 7}, "AWQ's"},
        std::pair{Order{0, 2, 4, 6, 1, 3, 5, 7}, "AWQ's, twice"}};
    for (const auto& [order, name] : kOrders) {
      if (order == right_.codes.order) continue;
      add(Misread::other_code_order,
          fmt::format("the codes of a word are in another order ({})", name), true,
          [order = order](Plan& plan) {
            plan.codes.order = order;
            if (plan.packed_zeros) plan.packed_zeros->codes.order = order;
          });
    }
  }

  const Plan& right_;
  std::vector<Misreading> found_;
};

}  // namespace

std::vector<Misreading> misreadings_of(const Packing& packing) {
  const auto* grouped = dynamic_cast<const Grouped*>(&packing);
  if (grouped == nullptr) return {};
  return Misreadings(grouped->plan()).all();
}

}  // namespace regauge::io
