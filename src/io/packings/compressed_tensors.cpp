#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "floats8.h"
#include "grouped.h"
#include "methods.h"
#include "nvfp4.h"
#include "regauge/base/error.h"

namespace regauge::io {
namespace {

using nlohmann::json;

// What the groups of the config say of weights, whichever layers they are for.
struct Declared {
  std::set<std::int64_t> bits, group_sizes;
  std::optional<std::pair<std::int64_t, std::int64_t>> block;
};

Declared declared_by(const json& settings) {
  Declared declared;
  const auto groups = settings.find("config_groups");
  if (groups == settings.end() || !groups->is_object()) return declared;
  for (const auto& [name, group] : groups->items()) {
    const json weights = group.is_object() ? group.value("weights", json()) : json();
    if (!weights.is_object()) continue;
    declared.bits.insert(setting(weights, "num_bits", 8, 1, 8));
    const std::int64_t size = setting(weights, "group_size", -1, -1, kMostColumns);
    if (size > 0) declared.group_sizes.insert(size);
    const json block = weights.value("block_structure", json());
    if (block.is_array() && block.size() == 2 && block[0].is_number_integer() &&
        block[1].is_number_integer() && block[0] > 0 && block[1] > 0) {
      declared.block = std::pair(block[0].get<std::int64_t>(), block[1].get<std::int64_t>());
    }
  }
  return declared;
}

std::int64_t packed_words(std::int64_t count, std::int64_t bits) {
  return (count * bits + kWordBits - 1) / kWordBits;
}

struct Integers {
  const StoredTensor &codes, &scales;
  std::string stem;
  std::vector<std::int64_t> shape;
  int bits;
  bool packed;  // in words, else a byte each
  std::int64_t cols() const { return shape.back(); }
  std::int64_t rows() const {
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
    return rows;
  }
};

// One scale, one for each row, or one for each group of columns of each row.
Grouped::Blocks blocks_of(const Integers& of, const Declared& declared) {
  const std::int64_t rows = of.rows(), cols = of.cols(), count = of.scales.elements();
  if (count == 1) return {rows, cols, 1, 1};
  const bool fits = !of.scales.shape.empty() && count % rows == 0 && count > 0;
  const std::int64_t groups = fits ? count / rows : 0;
  const bool in_rows =
      fits &&
      (groups == 1 || (of.scales.shape.back() == groups && of.scales.shape[0] == of.shape[0]));
  if (!in_rows || cols % groups != 0) {
    const bool turned = of.scales.shape.size() == 2 && of.scales.shape[1] == rows &&
                        of.scales.shape[0] > 0 && cols % of.scales.shape[0] == 0;
    throw UsageError(fmt::format(
        "[packed] '{}' is {} and its scales '{}' are {}; expected one scale, or one or several for "
        "each row{}",
        of.codes.name, shape_text(of.shape), of.scales.name, shape_text(of.scales.shape),
        turned ? ": they are transposed" : "; are they those of a fused tensor?"));
  }
  const std::int64_t width = cols / groups;
  if (groups > 1 && !declared.group_sizes.empty() && !declared.group_sizes.contains(width)) {
    throw UsageError(fmt::format(
        "[packed] '{}' has a scale for each {} of a row, and the config says group_size {}",
        of.codes.name, width, *declared.group_sizes.begin()));
  }
  return {1, width, groups, 1};
}

// The zeros lie as the scales do, one by one or in words down the rows.
const StoredTensor* add_zeros(const Integers& of, Joiner& joiner, Grouped::Plan& plan) {
  const StoredTensor* zeros = joiner.find(of.stem + ".weight_zero_point");
  if (zeros == nullptr) return nullptr;
  if (zeros->shape == of.scales.shape && zeros->dtype != DType::i32) {
    plan.zeros = Grouped::plain(2);
    return zeros;
  }
  if (of.shape.size() != 2 || !of.packed || zeros->dtype != DType::i32 || of.scales.shape.empty()) {
    throw UsageError(fmt::format("[packed] '{}' is {} of {}; it does not fit '{}', which is {}",
                                 zeros->name, shape_text(zeros->shape), zeros->type_name(),
                                 of.scales.name, shape_text(of.scales.shape)));
  }
  const std::int64_t groups = of.scales.shape.back();
  Joiner::require_shape(*zeros, {packed_words(of.rows(), of.bits), groups}, of.codes,
                        "a word for several rows");
  Codes places;
  places.bits = of.bits;
  places.along_rows = false;
  places.line_bytes = 4;
  places.word_bytes = 4 * groups;
  plan.packed_zeros = Grouped::PackedZeros{2, places, plan.grid.values};
  return zeros;
}

void join_integers(const Integers& of, const Declared& declared, Joiner& joiner) {
  Codes places;
  places.bits = of.bits;
  places.line_bytes = of.packed ? 4 * of.codes.shape.back() : of.cols();
  const Grouped::Blocks blocks = blocks_of(of, declared);
  // Rounding the zero moves the range by half a step, and its end is cut off by as much.
  const double beyond = joiner.find(of.stem + ".weight_zero_point") != nullptr ? 0.5 : 0;
  Grouped::Plan plan{
      .name = fmt::format("INT{} with {}", of.bits,
                          blocks.rows > 1 ? "one scale"
                          : blocks.cols == of.cols()
                              ? "a scale for each row"
                              : fmt::format("a scale for each {} of a row", blocks.cols)),
      .typical_rounding = (of.bits == 8 ? 2.5 : 1.7) / (1 << of.bits),
      .shape = {1, of.rows(), of.cols()},
      .codes = places,
      .grid = of.packed ? Grid::integers_around(of.bits, beyond) : Grid::two_complement(beyond),
      .blocks = blocks,
      .scales = Grouped::plain(1),
      .divided_in = of.scales.dtype,
      .least = Grouped::of_integers(of.bits, of.scales.dtype)};
  std::vector<const StoredTensor*> parts = {&of.codes, &of.scales};
  if (const StoredTensor* zeros = add_zeros(of, joiner, plan)) parts.push_back(zeros);
  if (const StoredTensor* order = joiner.find(of.stem + ".weight_g_idx")) {
    Joiner::require_shape(*order, {of.cols()}, of.codes, "one group for each column");
    const std::int64_t groups = of.cols() / blocks.cols;
    for (const std::int64_t group : joiner.integers(*order, kMostColumns)) {
      if (group < 0 || group >= groups) {
        throw UsageError(fmt::format("[packed] '{}' names group {}, and there are {}", order->name,
                                     group, groups));
      }
      plan.groups.push_back(static_cast<std::int32_t>(group));
    }
    parts.push_back(order);
  }
  if (const StoredTensor* shape = joiner.find(of.stem + ".weight_shape")) parts.push_back(shape);
  joiner.join(of.stem + ".weight", of.shape, std::make_shared<Grouped>(std::move(plan)), parts);
}

void join_words(const StoredTensor& codes, const std::string& stem, const Declared& declared,
                Joiner& joiner) {
  if (codes.shape.size() < 2 || codes.elements() == 0) return;
  const StoredTensor& scales = joiner.require(stem + ".weight_scale", codes, "scales");
  const StoredTensor& stored =
      joiner.require(stem + ".weight_shape", codes, "shape of what is packed in it");
  constexpr std::int64_t kMostSides = 4;
  const std::vector<std::int64_t> shape = joiner.integers(stored, kMostSides);
  const bool alike = shape.size() == codes.shape.size() &&
                     std::equal(shape.begin(), shape.end() - 1, codes.shape.begin()) &&
                     shape.back() > 0 && shape.back() < kMostColumns;
  std::set<std::int64_t> bits = declared.bits;
  if (bits.empty()) bits = {4, 8};
  const auto fits = std::find_if(bits.begin(), bits.end(), [&](std::int64_t some) {
    return alike && packed_words(shape.back(), some) == codes.shape.back();
  });
  if (fits == bits.end()) {
    throw UsageError(fmt::format(
        "[packed] '{}' is {}, which holds no {} numbers of {} bits ('{}' and num_bits of the "
        "config); is one of them misdeclared, or was it packed by a version of compressed-tensors "
        "that leaves bits unused?",
        codes.name, shape_text(codes.shape), shape_text(shape), *bits.begin(), stored.name));
  }
  join_integers({codes, scales, stem, shape, static_cast<int>(*fits), true}, declared, joiner);
}

// Two floats of four bits in a byte.
void join_pairs(const StoredTensor& codes, const std::string& stem, Joiner& joiner) {
  const StoredTensor& scales = joiner.require(stem + ".weight_scale", codes, "scales");
  const std::string name = stem + ".weight";
  if (scales.dtype != DType::u8) {
    const StoredTensor& second =
        joiner.require(stem + ".weight_global_scale", codes, "scale of its scales");
    return join_nvfp4(name, codes, scales, second, SecondScale::divided_by, joiner);
  }
  constexpr std::int64_t kBlock = 32;
  if (codes.shape.empty() || codes.elements() == 0) return;
  std::vector<std::int64_t> shape = codes.shape, blocks = codes.shape;
  shape.back() *= 2;
  blocks.back() = shape.back() / kBlock;
  Joiner::require_shape(scales, blocks, codes, "one for each block of 32; was it fused or split?");
  const std::int64_t cols = shape.back(), rows = codes.elements() / codes.shape.back();
  if (cols % kBlock != 0) {
    throw UsageError(fmt::format("[packed] '{}' is {}: its rows are no whole blocks of 32",
                                 codes.name, shape_text(codes.shape)));
  }
  Codes places;
  places.bits = 4;
  places.line_bytes = codes.shape.back();
  Grouped::Plan plan{.name = "MXFP4",
                     .typical_rounding = 0.12,
                     .shape = {1, rows, cols},
                     .codes = places,
                     .grid = Grid::e2m1(1),
                     .blocks = {1, kBlock, cols / kBlock, 1},
                     .scales = Grouped::powers_of_two(1),
                     .divided_in = DType::bf16,
                     .least = Grouped::of_powers_or(1)};
  joiner.join(name, std::move(shape), std::make_shared<Grouped>(std::move(plan)),
              {&codes, &scales});
}

}  // namespace

void join_compressed_tensors(const json& settings, Joiner& joiner) {
  const Declared declared = declared_by(settings);
  for (const StoredTensor& codes : joiner.tensors()) {
    if (const std::string stem = stem_of(codes, ".weight_packed"); !stem.empty()) {
      if (codes.dtype == DType::i32) join_words(codes, stem, declared, joiner);
      if (codes.dtype == DType::u8) join_pairs(codes, stem, joiner);
    }
    const std::string stem = stem_of(codes, ".weight");
    const bool float8 = codes.dtype == DType::f8_e4m3 || codes.dtype == DType::f8_e5m2;
    if (stem.empty() || (!float8 && codes.dtype != DType::i8) || codes.shape.size() < 2) continue;
    if (codes.elements() == 0) continue;
    const StoredTensor& scales = joiner.require(stem + ".weight_scale", codes, "scales");
    if (float8) {
      join_floats8(codes, scales, declared.block, joiner);
    } else {
      join_integers({codes, scales, stem, codes.shape, 8, false}, declared, joiner);
    }
  }
}

}  // namespace regauge::io
