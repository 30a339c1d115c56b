#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "grouped.h"
#include "methods.h"
#include "regauge/base/error.h"

namespace regauge::io {
namespace {

using nlohmann::json;

// Version 1 stores zeros less one, a word at a time.
bool zeros_are_less_one(const json& settings) {
  const json format = settings.value("checkpoint_format", settings.value("format", json("gptq")));
  if (format == "gptq") return true;
  if (format == "gptq_v2") return false;
  throw UsageError(fmt::format(
      "[config] 'checkpoint_format' of the quantisation is {}; gptq and gptq_v2 are read: save the "
      "model in one of them",
      format.dump()));
}

// One in each code of a word.
std::uint32_t ones(int bits) {
  std::uint32_t word = 0;
  for (int shift = 0; shift < kWordBits; shift += bits) word |= std::uint32_t{1} << shift;
  return word;
}

struct Layer {
  const StoredTensor &codes, &zeros, &scales;
  const StoredTensor* order;
  int bits;
  std::int64_t in, out, groups;
};

Layer layer_of(const StoredTensor& codes, const std::string& stem, const json& settings,
               const Joiner& joiner) {
  const StoredTensor& zeros = joiner.require(stem + ".qzeros", codes, "zero points");
  const StoredTensor& scales = joiner.require(stem + ".scales", codes, "scales");
  const bool matrices =
      codes.shape.size() == 2 && zeros.shape.size() == 2 && scales.shape.size() == 2;
  const bool words = codes.dtype == DType::i32 && zeros.dtype == DType::i32;
  if (!matrices || !words || codes.elements() == 0 || scales.elements() == 0) {
    throw UsageError(fmt::format(
        "[packed] '{}' is {} of {}, with zero points {} of {} and scales {}; expected matrices "
        "and words of I32",
        codes.name, shape_text(codes.shape), codes.type_name(), shape_text(zeros.shape),
        zeros.type_name(), shape_text(scales.shape)));
  }
  const auto declared = static_cast<int>(setting(settings, "bits", 4, 2, 8));
  const std::int64_t out = codes.shape[1], packed = zeros.shape[1] * kWordBits;
  const bool own = settings.contains("dynamic") && !settings["dynamic"].is_null();
  const auto bits = static_cast<int>(own && packed % out == 0 ? packed / out : declared);
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
    throw UsageError(fmt::format("[config] 'bits' is {}; GPTQ has 2, 3, 4 and 8", bits));
  }
  const std::int64_t in = codes.shape[0] * kWordBits / bits, groups = zeros.shape[0];
  Joiner::require_shape(scales, {groups, out}, codes, "are they those of another tensor?");
  Joiner::require_shape(zeros, {groups, (out * bits + kWordBits - 1) / kWordBits}, scales,
                        fmt::format("are these {} bits?", bits));
  if (const std::int64_t size = setting(settings, "group_size", -1, -1, kMostColumns);
      !own && (in + (size < 1 ? in : size) - 1) / (size < 1 ? in : size) != groups) {
    throw UsageError(fmt::format(
        "[packed] '{}' has {} groups of its {} columns, and the config says group_size {} and {} "
        "bits: one of them is not what the tensors were made with",
        codes.name, groups, in, size, bits));
  }
  return {codes, zeros, scales, joiner.find(stem + ".g_idx"), bits, in, out, groups};
}

// The group of each column; nothing where they are in order.
std::vector<std::int32_t> groups_of(const Layer& layer, const Joiner& joiner) {
  if (layer.order == nullptr) return {};
  Joiner::require_shape(*layer.order, {layer.in}, layer.codes, "one group for each column");
  const std::int64_t width = (layer.in + layer.groups - 1) / layer.groups;
  std::vector<std::int32_t> groups;
  bool in_order = true;
  for (const std::int64_t group : joiner.integers(*layer.order, kMostColumns)) {
    if (group < 0 || group >= layer.groups) {
      throw UsageError(fmt::format("[packed] '{}' names group {}, and there are {}",
                                   layer.order->name, group, layer.groups));
    }
    in_order = in_order && group == static_cast<std::int64_t>(groups.size()) / width;
    groups.push_back(static_cast<std::int32_t>(group));
  }
  if (in_order) groups.clear();
  return groups;
}

}  // namespace

void join_gptq(const json& settings, Joiner& joiner) {
  const bool less_one = zeros_are_less_one(settings);
  for (const StoredTensor& codes : joiner.tensors()) {
    const std::string stem = stem_of(codes, ".qweight");
    if (stem.empty()) continue;
    const Layer layer = layer_of(codes, stem, settings, joiner);
    const auto groups = groups_of(layer, joiner);
    Codes places;
    places.bits = layer.bits;
    places.line_bytes = 4;
    places.word_bytes = 4 * layer.out;
    Codes zeros;
    zeros.bits = layer.bits;
    zeros.along_rows = false;
    zeros.line_bytes = 4 * layer.zeros.shape[1];
    const bool whole_words = kWordBits % layer.bits == 0;
    if (less_one && whole_words) zeros.added = ones(layer.bits);
    std::vector<float> values = Grid::unsigned_integers(layer.bits).values;
    if (less_one && !whole_words) std::rotate(values.begin(), values.begin() + 1, values.end());
    const std::int64_t width = (layer.in + layer.groups - 1) / layer.groups;
    Grouped::Plan plan{
        .name = fmt::format("GPTQ of {} bits with a scale for each {} of a row", layer.bits, width),
        .typical_rounding = 1.7 / (1 << layer.bits),
        .shape = {1, layer.out, layer.in},
        .codes = places,
        .grid = Grid::unsigned_integers(layer.bits, 0.5),  // zeros are rounded
        .blocks = {1, width, 1, layer.out},
        .scales = Grouped::plain(1),
        .packed_zeros = Grouped::PackedZeros{2, zeros, std::move(values)},
        .groups = groups,
        .divided_in = DType::f16,
        .cuts_off = true,
        .least = Grouped::of_integers(layer.bits, DType::f16)};
    std::vector<const StoredTensor*> parts = {&codes, &layer.scales, &layer.zeros};
    if (layer.order != nullptr) parts.push_back(layer.order);
    joiner.join(stem + ".weight", {layer.out, layer.in}, std::make_shared<Grouped>(std::move(plan)),
                parts);
  }
}

}  // namespace regauge::io
