#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "grouped.h"
#include "methods.h"
#include "regauge/base/error.h"

namespace regauge::io {
namespace {

constexpr std::int64_t kInWord = 8;
constexpr double kLeastRange = 1.01e-5;  // a smaller one counts as large; F16 rounds its scale
constexpr std::array<std::uint8_t, 8> kOrder = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace

void join_awq(const nlohmann::json& settings, Joiner& joiner) {
  const auto version = settings.value("version", nlohmann::json("gemm"));
  const bool gemm = version.is_string() && (version == "gemm" || version == "GEMM");
  const auto bits = setting(settings, "bits", setting(settings, "w_bit", 4, 1, 8), 1, 8);
  if (!gemm || bits != 4) {
    throw UsageError(fmt::format(
        "[config] AWQ of version {} with {} bits is not read; version gemm with 4 bits is",
        version.dump(), bits));
  }
  const auto declared = setting(settings, "group_size", -1, -1, kMostColumns);
  for (const StoredTensor& codes : joiner.tensors()) {
    const std::string stem = stem_of(codes, ".qweight");
    if (stem.empty()) continue;
    const StoredTensor& zeros = joiner.require(stem + ".qzeros", codes, "zero points");
    const StoredTensor& scales = joiner.require(stem + ".scales", codes, "scales");
    const bool words = codes.dtype == DType::i32 && zeros.dtype == DType::i32;
    if (codes.shape.size() != 2 || !words || codes.elements() == 0) {
      throw UsageError(
          fmt::format("[packed] '{}' is {} of {}, with zero points of {}; expected "
                      "matrices of I32",
                      codes.name, shape_text(codes.shape), codes.type_name(), zeros.type_name()));
    }
    const std::int64_t in = codes.shape[0], out = codes.shape[1] * kInWord;
    const std::int64_t width = declared < 1 ? in : declared, groups = (in + width - 1) / width;
    const std::string hint =
        fmt::format("the config says group_size {}; is it another one?", declared);
    Joiner::require_shape(scales, {groups, out}, codes, hint);
    Joiner::require_shape(zeros, {groups, out / kInWord}, codes, hint);
    Codes places;
    places.bits = 4;
    places.along_rows = false;
    places.line_bytes = out / 2;
    places.order = kOrder;
    Grouped::Plan plan{
        .name = fmt::format("AWQ of 4 bits with a scale for each {} of a row", width),
        .typical_rounding = 0.11,
        .shape = {1, out, in},
        .codes = places,
        .grid = Grid::unsigned_integers(4, 0.5),  // zeros are rounded
        .blocks = {1, width, 1, out},
        .scales = Grouped::plain(1),
        .packed_zeros = Grouped::PackedZeros{2, places, Grid::unsigned_integers(4).values},
        .divided_in = DType::f16,
        .cuts_off = true,
        .least = Grouped::of_integers(4, DType::f16, kLeastRange / 15)};
    joiner.join(stem + ".weight", {out, in}, std::make_shared<Grouped>(std::move(plan)),
                {&codes, &scales, &zeros});
  }
}

}  // namespace regauge::io
