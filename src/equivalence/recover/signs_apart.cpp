#include "signs_apart.h"

#include <fmt/format.h>

#include "regauge/symmetry/rotary.h"

namespace regauge {
namespace {

constexpr double kTurned =
    -0.9;  // the cosine between a head's columns and those of the other model

struct Run {
  std::int64_t first, size;
};

// What may change its sign alone.
std::vector<Run> runs_of(const Attention& shape) {
  const GainExchange group(shape.qk_width, shape.rotary_frequencies);
  std::vector<Run> runs;
  for (const auto& pairs : group.turning()) {
    for (const auto& pair : pairs) runs.push_back({pair.first, 2});
  }
  for (const auto& coordinates : group.plain()) {
    for (const std::int64_t i : coordinates) runs.push_back({i, 1});
  }
  return runs;
}

}  // namespace

std::vector<std::string> half_turns_of_heads(const Architecture& architecture, std::int64_t layer,
                                             const Parameters<double>& a,
                                             const Parameters<double>& b) {
  const Attention& shape = architecture.layer(layer).attention;
  if (shape.qk_norm != QkNorm::heads || shape.kv_heads < 2) return {};
  const std::string at = fmt::format("layers.{}.attn", layer);
  const auto is_turned = [&](const char* map, std::int64_t head, const Run& run) {
    const auto first = head * shape.qk_width + run.first;
    const auto of_a = a.at(at + map).middleCols(first, run.size);
    const auto of_b = b.at(at + map).middleCols(first, run.size);
    return of_a.cwiseProduct(of_b).sum() < kTurned * of_a.norm() * of_b.norm();
  };
  std::int64_t turned = 0;
  for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
    for (const Run& run : runs_of(shape)) {
      bool all = is_turned(".k.weight", kv, run);
      for (std::int64_t i = kv * shape.group(); i < (kv + 1) * shape.group(); ++i) {
        all = all && is_turned(".q.weight", i, run);
      }
      if (all) ++turned;
    }
  }
  if (turned == 0) return {};
  return {fmt::format(
      "{}: {} of the pairs, or coordinates, of single heads seem to have made half a turn, which "
      "changes nothing behind a norm of queries and keys and is not looked for",
      at, turned)};
}

std::vector<std::string> signs_of_convolutions(const Architecture& architecture,
                                               const Parameters<double>& a,
                                               const Parameters<double>& b) {
  std::vector<std::string> notes;
  const auto note = [&](const std::string& name) {
    notes.push_back(name + " has other signs, which is not looked for");
  };
  const std::string length = "embed.positional.length";
  if (architecture.has_positional() && (a.at(length).array() * b.at(length).array() < 0).any()) {
    note(length);
  }
  if (architecture.convolution_norm != ConvolutionNorm::layer) return notes;
  for (std::size_t i = 0; i < architecture.convolutions.size(); ++i) {
    // The sum does not see where the channels stand.
    const std::string gain = architecture.convolution(i) + ".norm.gain";
    if (a.contains(gain) && a.at(gain).sum() * b.at(gain).sum() < 0) note(gain);
  }
  return notes;
}

}  // namespace regauge
