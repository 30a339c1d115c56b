#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <string_view>

#include "floats8.h"
#include "grouped.h"
#include "methods.h"
#include "regauge/base/error.h"

namespace regauge::io {
namespace {

using nlohmann::json;

constexpr std::string_view kWeight = ".weight";

bool is_float8(DType dtype) { return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2; }

// The scales that belong to a tensor: all names say what the codes are multiplied by.
const StoredTensor* scales_of(const StoredTensor& codes, const Joiner& joiner) {
  for (const char* suffix : {"_scale_inv", "_scale"}) {
    if (const StoredTensor* found = joiner.find(codes.name + suffix)) return found;
  }
  if (!codes.name.ends_with(kWeight)) return nullptr;
  return joiner.find(codes.name.substr(0, codes.name.size() - kWeight.size()) + ".scale");
}

// The sides of a block as the config says them.
std::optional<std::pair<std::int64_t, std::int64_t>> declared_block(const json& settings) {
  if (!settings.is_object() || !settings.contains("weight_block_size")) return std::nullopt;
  const json& sides = settings["weight_block_size"];
  if (sides.is_null()) return std::nullopt;
  const auto is_side = [](const json& side) {
    return side.is_number_integer() && side.get<std::int64_t>() > 0;
  };
  if (!sides.is_array() || sides.size() != 2 || !is_side(sides[0]) || !is_side(sides[1])) {
    throw UsageError(fmt::format(
        "[config] 'quantization_config/weight_block_size' is {}; expected two sizes above 0",
        sides.dump()));
  }
  return std::pair(sides[0].get<std::int64_t>(), sides[1].get<std::int64_t>());
}

std::int64_t needed(std::int64_t side, std::int64_t block) { return (side + block - 1) / block; }

// The side of a block where the config does not say it: what everyone takes if it fits, for the
// last block may be a part of one; else what divides the side; 0 if nothing does.
std::int64_t likely_block(std::int64_t side, std::int64_t count) {
  constexpr std::int64_t kUsual = 128;
  if (count == 1) return side;
  if (needed(side, kUsual) == count) return kUsual;
  return side % count == 0 ? side / count : 0;
}

// How the scales lie over `rows` x `cols` numbers of such a shape. A stack of matrices counts as
// one, each below the other.
Grouped::Blocks blocks_of(const StoredTensor& codes, std::int64_t cols, const StoredTensor& scales,
                          std::optional<std::pair<std::int64_t, std::int64_t>> declared) {
  const std::int64_t of_one = codes.shape[codes.shape.size() - 2];  // the rows of one matrix
  const std::int64_t rows = codes.elements() / codes.shape.back(), count = scales.elements();
  if (count == 1) return {rows, cols, 1, 1};
  const std::int64_t across = scales.shape.back();
  const bool matrices = scales.shape.size() == codes.shape.size();
  if (count == rows && (!matrices || across == 1)) return {1, cols, 1, 1};
  const auto refuse = [&](const std::string& expected) {
    const bool turned = scales.shape.size() == 2 && scales.shape[0] == needed(cols, 128) &&
                        scales.shape[1] == needed(of_one, 128);
    return UsageError(fmt::format(
        "[packed] '{}' is {} and its scales '{}' are {}; expected one scale, one for each row, "
        "or {}{}",
        codes.name, shape_text(codes.shape), scales.name, shape_text(scales.shape), expected,
        turned ? ": they are transposed"
               : "; are they transposed, those of a tensor that was split or fused since, or is "
                 "the size of a block another one?"));
  };
  if (!matrices) throw refuse("a matrix of them");
  const std::int64_t down = scales.shape[scales.shape.size() - 2];
  if (across == 0 || down == 0) throw refuse("at least one");
  const auto [block_rows, block_cols] =
      declared.value_or(std::pair(likely_block(of_one, down), likely_block(cols, across)));
  if (block_rows == 0 || block_cols == 0) {
    throw refuse("a 'weight_block_size' in the config, which the shapes do not tell");
  }
  const bool fits = needed(of_one, block_rows) == down && needed(cols, block_cols) == across &&
                    rows / of_one * down * across == count;
  const bool whole = rows == of_one || of_one % block_rows == 0;
  if (!fits || !whole) {
    throw refuse(fmt::format("[{}, {}], one for each block of {} x {}", needed(of_one, block_rows),
                             needed(cols, block_cols), block_rows, block_cols));
  }
  return {block_rows, block_cols, across, 1};
}

std::string name_of(std::string_view codes, std::int64_t rows, std::int64_t cols,
                    const Grouped::Blocks& blocks) {
  if (blocks.cols >= cols && blocks.rows >= rows) return fmt::format("{} with one scale", codes);
  if (blocks.cols >= cols && blocks.rows == 1) {
    return fmt::format("{} with a scale for each row", codes);
  }
  return fmt::format("{} with a scale for each block of {} x {}", codes, blocks.rows, blocks.cols);
}

// All quantisers divide by the largest size of a block, or by the power of two above that. One
// scale for a matrix may be that of several which are computed together (queries, keys and values),
// whose largest sizes differ. fbgemm_fp8 takes no scale below kLeastOfRow.
Grouped::Least least_of(const StoredTensor& codes, std::int64_t cols,
                        const Grouped::Blocks& blocks) {
  constexpr double kOfBlock = 0.85;  // E5M2 has nothing between 0.857 and 1
  constexpr double kOfFour = 0.98, kOfSeveral = 1.0 / 64;
  constexpr double kLeastOfRow = 1.01 / (448 * 512);
  if (codes.dtype == DType::i8) return Grouped::of_powers_or(kOfFour);
  const bool whole = blocks.cols >= cols && blocks.rows >= codes.shape[codes.shape.size() - 2];
  if (whole) return Grouped::of_all(kOfSeveral);
  const bool of_row = blocks.cols >= cols && blocks.rows == 1;
  return Grouped::of_powers_or(kOfBlock, of_row ? kLeastOfRow : 0);
}

}  // namespace

void join_floats8(const StoredTensor& codes, const StoredTensor& scales,
                  std::optional<std::pair<std::int64_t, std::int64_t>> declared, Joiner& joiner) {
  // Two floats of four bits in a byte, each block as the scales say.
  const bool pairs = codes.dtype == DType::i8;
  if (codes.elements() == 0) return;
  std::vector<std::int64_t> shape = codes.shape;
  if (pairs) shape.back() *= 2;
  const std::int64_t cols = shape.back(), rows = codes.elements() / codes.shape.back();
  const auto blocks = blocks_of(codes, cols, scales, pairs ? std::nullopt : declared);
  Codes places;
  places.bits = pairs ? 4 : 8;
  places.line_bytes = codes.shape.back();
  const std::string_view type = pairs ? "E2M1" : dtype_name(codes.dtype);
  constexpr double kThreeDigits = 2.6e-2, kTwoDigits = 5.2e-2, kOneDigit = 0.12;
  Grouped::Plan plan{
      .name = name_of(type, rows, cols, blocks),
      .typical_rounding = pairs                           ? kOneDigit
                          : codes.dtype == DType::f8_e4m3 ? kThreeDigits
                                                          : kTwoDigits,
      .shape = {1, rows, cols},
      .codes = places,
      .grid = pairs ? Grid::e2m1(1) : Grid::floats8(codes.dtype),
      .blocks = blocks,
      .scales = scales.dtype == DType::u8 ? Grouped::powers_of_two(1) : Grouped::plain(1),
      .divided_in = scales.dtype,
      .least = least_of(codes, cols, blocks)};
  joiner.join(codes.name, std::move(shape), std::make_shared<Grouped>(std::move(plan)),
              {&codes, &scales});
}

void join_fp8(const json& settings, Joiner& joiner) {
  const auto declared = declared_block(settings);
  for (const StoredTensor& codes : joiner.tensors()) {
    if (codes.shape.size() < 2 || joiner.is_taken(codes)) continue;
    const bool pairs = codes.dtype == DType::i8 && settings.is_object();
    if (!is_float8(codes.dtype) && !pairs) continue;
    const StoredTensor* scales = scales_of(codes, joiner);
    if (scales == nullptr) {
      if (!settings.is_object() || pairs) continue;  // plain numbers of eight bits
      throw UsageError(
          fmt::format("[packed] '{}' is {} and has no scales; expected '{}_scale_inv' or "
                      "'{}_scale'; were they lost, or do they belong to a fused tensor?",
                      codes.name, dtype_name(codes.dtype), codes.name, codes.name));
    }
    join_floats8(codes, *scales, declared, joiner);
  }
}

}  // namespace regauge::io
