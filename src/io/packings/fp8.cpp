#include "fp8.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <string_view>

#include "regauge/base/error.h"
#include "scaled.h"

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

// How the scales lie over the codes. A stack of matrices counts as one, each below the other.
Scaled::Blocks blocks_of(const StoredTensor& codes, const StoredTensor& scales,
                         std::optional<std::pair<std::int64_t, std::int64_t>> declared) {
  const std::int64_t cols = codes.shape.back(),
                     rows = codes.elements() / std::max<std::int64_t>(cols, 1);
  const std::int64_t count = scales.elements();
  if (count == 1) return {rows, cols, std::max<std::int64_t>(rows, 1), cols};
  const std::int64_t of_one = codes.shape[codes.shape.size() - 2];  // the rows of one matrix
  const std::int64_t across = scales.shape.back();
  const bool matrices = scales.shape.size() == codes.shape.size();
  if (count == rows && (!matrices || across == 1)) return {rows, cols, 1, cols};
  const auto refuse = [&](const std::string& expected) {
    return UsageError(fmt::format(
        "[packed] '{}' is {} and its scales '{}' are [{}]; expected one scale, one for each row, "
        "or {}; are they transposed, or those of another tensor?",
        codes.name, fmt::format("[{}]", fmt::join(codes.shape, ", ")), scales.name,
        fmt::join(scales.shape, ", "), expected));
  };
  if (!matrices) throw refuse("a matrix of them");
  const std::int64_t down = scales.shape[scales.shape.size() - 2];
  if (across == 0 || down == 0) throw refuse("at least one");
  const auto blocks =
      declared.value_or(std::pair((of_one + down - 1) / down, (cols + across - 1) / across));
  const auto [block_rows, block_cols] = blocks;
  const auto needed = [](std::int64_t side, std::int64_t block) {
    return (side + block - 1) / block;
  };
  const bool fits = needed(of_one, block_rows) == down && needed(cols, block_cols) == across &&
                    rows / std::max<std::int64_t>(of_one, 1) * down * across == count;
  const bool whole = rows == of_one || of_one % block_rows == 0;
  if (!fits || !whole) {
    throw refuse(fmt::format("[{}, {}], one for each block of {} x {}", needed(of_one, block_rows),
                             needed(cols, block_cols), block_rows, block_cols));
  }
  return {rows, cols, block_rows, block_cols};
}

}  // namespace

void join_fp8(const json& settings, Joiner& joiner) {
  const auto declared = declared_block(settings);
  for (const StoredTensor& codes : joiner.tensors()) {
    if (!is_float8(codes.dtype) || codes.shape.size() < 2) continue;
    const StoredTensor* scales = scales_of(codes, joiner);
    if (scales == nullptr) {
      if (!settings.is_object()) continue;  // plain numbers of eight bits
      throw UsageError(fmt::format(
          "[packed] '{}' is {} and has no scales; expected '{}_scale_inv' or '{}_scale'",
          codes.name, dtype_name(codes.dtype), codes.name, codes.name));
    }
    auto packing = std::make_shared<Scaled>(codes.dtype, blocks_of(codes, *scales, declared));
    joiner.join(codes.name, codes.shape, std::move(packing), {&codes, scales});
  }
}

}  // namespace regauge::io
