#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "grouped.h"
#include "io/checked.h"
#include "methods.h"
#include "regauge/base/error.h"

namespace regauge::io {
namespace {

using nlohmann::json;

// What bitsandbytes keeps beside the codes of four bits, as JSON in a tensor of bytes.
struct State {
  std::vector<std::int64_t> shape;
  std::int64_t count, block;
  std::int64_t nested_block = 0;
  float nested_offset = 0;
};

State state_of(const StoredTensor& blob, const Joiner& joiner) {
  const auto bytes = joiner.bytes(blob);
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const json found = json::parse(text, text + bytes.size(), nullptr, false);
  State state;
  bool good = found.is_object() && found.contains("shape") && found["shape"].is_array();
  if (good) {
    for (const json& side : found["shape"]) {
      good = good && side.is_number_integer();
      if (good) state.shape.push_back(side.get<std::int64_t>());
    }
  }
  const auto count = good ? element_count(state.shape) : std::nullopt;
  if (!count) {
    throw UsageError(fmt::format("[packed] '{}' does not hold the shape of a tensor", blob.name));
  }
  state.count = *count;
  constexpr std::int64_t kMostInBlock = 1 << 16;
  state.block = setting(found, "blocksize", 64, 2, kMostInBlock);
  state.nested_block = setting(found, "nested_blocksize", 256, 1, kMostInBlock);
  const json offset = found.value("nested_offset", json(0));
  if (offset.is_number()) state.nested_offset = offset.get<float>();
  return state;
}

std::vector<float> map_of(const StoredTensor& map, std::int64_t count, const Joiner& joiner) {
  if (map.elements() != count || is_quantised(map.dtype)) {
    throw UsageError(fmt::format("[packed] '{}' is {} of {}; expected {} numbers", map.name,
                                 shape_text(map.shape), map.type_name(), count));
  }
  std::vector<float> values(static_cast<std::size_t>(count));
  decode<float>(map.dtype, joiner.bytes(map), values);
  return values;
}

void require_count(const StoredTensor& part, std::int64_t needed, const StoredTensor& codes) {
  if (part.elements() == needed) return;
  throw UsageError(fmt::format("[packed] '{}' has {} numbers; '{}' needs {}", part.name,
                               part.elements(), codes.name, needed));
}

void join_four_bits(const StoredTensor& codes, const StoredTensor& blob, std::string_view type,
                    Joiner& joiner) {
  const State state = state_of(blob, joiner);
  if (state.count == 0) return;
  if (state.block % 2 != 0 || codes.bytes < (state.count + 1) / 2) {
    throw UsageError(fmt::format("[packed] '{}' has {} bytes for {} numbers in blocks of {}",
                                 codes.name, codes.bytes, state.count, state.block));
  }
  const StoredTensor& absmax = joiner.require(codes.name + ".absmax", codes, "scales");
  const StoredTensor& map = joiner.require(codes.name + ".quant_map", codes, "values of its codes");
  const std::int64_t blocks = (state.count - 1) / state.block + 1;
  require_count(absmax, blocks, codes);
  std::vector<const StoredTensor*> parts = {&codes, &absmax};
  Codes places;
  places.bits = 4;
  places.line_bytes = state.block / 2;
  places.order = {1, 0, 3, 2, 5, 4, 7, 6};
  Grouped::Plan plan{.name = fmt::format("{} with a scale for each {}", type, state.block),
                     .typical_rounding = 0.1,
                     .shape = {1, blocks, state.block},
                     .codes = places,
                     .grid = Grid(map_of(map, 16, joiner)),
                     .blocks = {1, state.block, 1, 1},
                     .scales = Grouped::plain(1),
                     .least = Grouped::of_all(0.99)};
  if (absmax.dtype == DType::u8) {
    const StoredTensor& second =
        joiner.require(codes.name + ".nested_absmax", codes, "scales of its scales");
    const StoredTensor& second_map =
        joiner.require(codes.name + ".nested_quant_map", codes, "values of its scales");
    require_count(second, (blocks - 1) / state.nested_block + 1, codes);
    const Grid grid(map_of(second_map, 256, joiner));
    // The codes were found by the scales as they were before these were rounded.
    std::vector<float> errors(grid.values.size());
    for (std::size_t i = 0; i < errors.size(); ++i) {
      errors[i] = static_cast<float>(std::max(grid.below[i], grid.above[i]));
    }
    const auto read = [state](const std::vector<float>& values, float offset) {
      return [=](std::span<const Numbers> all, std::int64_t first, std::int64_t stride,
                 std::span<float> scales) {
        const auto held = all[1].bytes();
        std::int64_t at = first;
        for (float& scale : scales) {
          float one = 0;
          all[2].range(at / state.nested_block, 1).decode<float>({&one, 1});
          const float product =
              values[static_cast<std::size_t>(held[static_cast<std::size_t>(at)])] * one;
          scale = product + offset;
          at += stride;
        }
      };
    };
    plan.name += ", scaled again";
    plan.scales = read(grid.values, state.nested_offset);
    plan.scale_errors = read(errors, 0);
    parts.insert(parts.end(), {&second, &second_map});
  }
  parts.insert(parts.end(), {&map, &blob});
  joiner.join(codes.name, state.shape, std::make_shared<Grouped>(std::move(plan)), parts);
}

void join_eight_bits(const StoredTensor& codes, const StoredTensor& scales, const std::string& stem,
                     Joiner& joiner) {
  if (codes.shape.size() != 2 || codes.elements() == 0) return;
  Joiner::require_shape(scales, {codes.shape[0]}, codes, "one for each row");
  Codes places;
  places.line_bytes = codes.shape[1];
  std::vector<const StoredTensor*> parts = {&codes, &scales};
  if (const StoredTensor* format = joiner.find(stem + ".weight_format")) {
    const auto held = joiner.bytes(*format);
    if (held.size() != 1 || held[0] != std::byte{0}) {
      throw UsageError(
          fmt::format("[packed] '{}' says another order than by rows, which is not "
                      "read; save the model anew with a current bitsandbytes",
                      format->name));
    }
    parts.push_back(format);
  }
  Grouped::Plan plan{.name = "INT8 with a scale for each row",
                     .typical_rounding = 1e-2,
                     .shape = {1, codes.shape[0], codes.shape[1]},
                     .codes = places,
                     .grid = Grid::two_complement(),
                     .blocks = {1, codes.shape[1], 1, 1},
                     .scales = Grouped::plain(1),
                     .factor = 7.874015718698502e-3F,  // 1 / 127, as bitsandbytes has it
                     .divided_in = DType::f16,         // to which it rounds weights first
                     .least = Grouped::of_all(0.99)};
  joiner.join(codes.name, codes.shape, std::make_shared<Grouped>(std::move(plan)), parts);
}

}  // namespace

void join_bitsandbytes(const json& /*settings*/, Joiner& joiner) {
  for (const StoredTensor& codes : joiner.tensors()) {
    for (const std::string_view type : {"nf4", "fp4"}) {
      const StoredTensor* blob =
          joiner.find(fmt::format("{}.quant_state.bitsandbytes__{}", codes.name, type));
      if (blob != nullptr) join_four_bits(codes, *blob, type == "nf4" ? "NF4" : "FP4", joiner);
    }
    const std::string stem = stem_of(codes, ".weight");
    if (stem.empty() || codes.dtype != DType::i8) continue;
    join_eight_bits(codes, joiner.require(stem + ".SCB", codes, "scales"), stem, joiner);
  }
}

}  // namespace regauge::io
