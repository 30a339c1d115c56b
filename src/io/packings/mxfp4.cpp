#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "grouped.h"
#include "methods.h"
#include "regauge/base/error.h"

namespace regauge::io {

void join_mxfp4(const nlohmann::json& /*settings*/, Joiner& joiner) {
  constexpr std::int64_t kBlock = 32;
  for (const StoredTensor& codes : joiner.tensors()) {
    const std::string stem = stem_of(codes, "_blocks");
    if (stem.empty() || codes.dtype != DType::u8) continue;
    const StoredTensor& scales = joiner.require(stem + "_scales", codes, "scales");
    if (codes.shape.size() != 4 || codes.shape[3] != kBlock / 2 || codes.elements() == 0) {
      throw UsageError(
          fmt::format("[packed] '{}' is {}; expected experts x rows x blocks x 16 bytes",
                      codes.name, shape_text(codes.shape)));
    }
    const std::int64_t experts = codes.shape[0], out = codes.shape[1], blocks = codes.shape[2];
    Joiner::require_shape(scales, {experts, out, blocks}, codes, "one for each block of 32");
    if (scales.dtype != DType::u8) {
      throw UsageError(fmt::format("[packed] '{}' is of type {}; expected U8, powers of two",
                                   scales.name, scales.type_name()));
    }
    // Each row of the blocks is a column of the matrix.
    Codes places;
    places.bits = 4;
    places.along_rows = false;
    places.line_bytes = blocks * kBlock / 2;
    places.matrix_bytes = out * places.line_bytes;
    Grouped::Plan plan{.name = "MXFP4",
                       .typical_rounding = 0.12,
                       .shape = {experts, blocks * kBlock, out},
                       .codes = places,
                       .grid = Grid::e2m1(1),  // the largest of a block is below 8 of its scales
                       .blocks = {kBlock, 1, 1, blocks, out * blocks},
                       .scales = Grouped::powers_of_two(1),
                       .least = Grouped::of_powers_or(1)};
    joiner.join(stem, {experts, blocks * kBlock, out}, std::make_shared<Grouped>(std::move(plan)),
                {&codes, &scales});
  }
}

}  // namespace regauge::io
