#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "grouped.h"
#include "methods.h"
#include "regauge/base/error.h"
#include "unread.h"

namespace regauge::io {
namespace {

using nlohmann::json;

constexpr double kLeastScale = 1.01e-7;  // in the place of smaller ones, rounded

// What the config says of one layer, else of all.
const json& settings_of(const json& settings, const std::string& stem) {
  const auto own = settings.find(stem);
  return own != settings.end() && own->is_object() ? *own : settings;
}

std::shared_ptr<const Packing> unread(const std::string& stem, const json& mode) {
  return std::make_shared<UnreadPacking>(
      fmt::format("MLX of mode {}", mode.dump()),
      fmt::format("[config] the quantisation of '{}' has mode {}; affine is read: convert it, or "
                  "compare the original",
                  stem, mode.dump()));
}

}  // namespace

void join_mlx(const json& settings, Joiner& joiner) {
  for (const StoredTensor& codes : joiner.tensors()) {
    const std::string stem = stem_of(codes, ".weight");
    if (stem.empty() || codes.dtype != DType::u32) continue;
    const json& own = settings_of(settings, stem);
    const json mode = own.value("mode", json("affine"));
    const auto bits = static_cast<int>(setting(own, "bits", 4, 2, 8));
    const std::int64_t size = setting(own, "group_size", 64, 1, 4096);
    const StoredTensor& scales = joiner.require(stem + ".scales", codes, "scales");
    if (codes.shape.empty() || codes.elements() == 0) continue;
    std::vector<std::int64_t> shape = codes.shape, groups = codes.shape;
    shape.back() = codes.shape.back() * kWordBits / bits;
    if (mode != "affine") {
      joiner.join(codes.name, std::move(shape), unread(stem, mode), {&codes, &scales});
      continue;
    }
    const StoredTensor& biases = joiner.require(stem + ".biases", codes, "biases");
    groups.back() = shape.back() / size;
    const std::string hint = fmt::format(
        "the config says {} bits and groups of {}; is one of them another?", bits, size);
    Joiner::require_shape(scales, groups, codes, hint);
    Joiner::require_shape(biases, groups, codes, hint);
    const std::int64_t cols = shape.back(), rows = codes.elements() / codes.shape.back();
    if (cols % size != 0 || codes.shape.back() * kWordBits % bits != 0) {
      throw UsageError(
          fmt::format("[packed] '{}' is {}: {}", codes.name, shape_text(codes.shape), hint));
    }
    Codes places;
    places.bits = bits;
    places.line_bytes = 4 * codes.shape.back();
    Grouped::Plan plan{
        .name = fmt::format("MLX of {} bits with a scale for each {} of a row", bits, size),
        .typical_rounding = 1.7 / (1 << bits),
        .shape = {1, rows, cols},
        .codes = places,
        // The end that is farther from zero is exact, the other one may be cut by a step.
        .grid = Grid::unsigned_integers(bits, 1),
        .blocks = {1, size, cols / size, 1},
        .scales = Grouped::plain(1),
        .zeros = Grouped::plain(2),
        .added = true,
        .divided_in = scales.dtype,
        .least = Grouped::of_integers(bits, scales.dtype, kLeastScale)};
    joiner.join(codes.name, std::move(shape), std::make_shared<Grouped>(std::move(plan)),
                {&codes, &scales, &biases});
  }
}

}  // namespace regauge::io
