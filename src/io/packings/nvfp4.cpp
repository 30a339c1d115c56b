#include "nvfp4.h"

#include <fmt/format.h>

#include "grouped.h"
#include "regauge/base/error.h"

namespace regauge::io {
namespace {

// The scale of a block is the sixth part of its largest size, rounded to F8_E4M3: the code of 6 is
// always used, or where that rounding is coarse one of 3 and more.
double least_of_scale(float scale) {
  constexpr float kLeastNormal = 0x1p-6F;
  return scale >= kLeastNormal ? 0.9 : scale > 0 ? 0.49 : 0;
}

}  // namespace

void join_nvfp4(const std::string& name, const StoredTensor& codes, const StoredTensor& scales,
                const StoredTensor& second, SecondScale how, Joiner& joiner) {
  constexpr std::int64_t kBlock = 16;
  if (codes.shape.empty() || codes.elements() == 0) return;
  std::vector<std::int64_t> shape = codes.shape, blocks = codes.shape;
  shape.back() *= 2;
  blocks.back() = shape.back() / kBlock;
  Joiner::require_shape(scales, blocks, codes, "one for each block of 16; was it fused or split?");
  const std::int64_t cols = shape.back(), rows = codes.elements() / codes.shape.back();
  if (cols % kBlock != 0 || second.elements() != 1 || scales.dtype != DType::f8_e4m3) {
    throw UsageError(fmt::format(
        "[packed] '{}' is {} with scales of {} and {} of '{}'; expected blocks of 16 with scales "
        "of F8_E4M3 and one number",
        codes.name, shape_text(codes.shape), scales.type_name(), second.elements(), second.name));
  }
  Codes places;
  places.bits = 4;
  places.line_bytes = codes.shape.back();
  Grouped::Plan plan{.name = "NVFP4",
                     .typical_rounding = 0.1,
                     .shape = {1, rows, cols},
                     .codes = places,
                     .grid = Grid::e2m1(0),
                     .blocks = {1, kBlock, cols / kBlock, 1},
                     .scales = Grouped::plain(1),
                     .second = Grouped::Second{2, how == SecondScale::divided_by},
                     .least = least_of_scale};
  joiner.join(name, std::move(shape), std::make_shared<Grouped>(std::move(plan)),
              {&codes, &scales, &second});
}

}  // namespace regauge::io
