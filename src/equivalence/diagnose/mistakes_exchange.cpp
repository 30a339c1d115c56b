// Tensors in each other's place, and matrices lying on their side.
#include <fmt/format.h>

#include <algorithm>

#include "arch/names.h"
#include "change.h"

namespace regauge {
namespace {

// Both ways at once: the exchange undoes itself.
void exchange(Change& change, const std::string& first, const std::string& second) {
  for (const auto& [to, from] : {std::pair{first, second}, {second, first}}) {
    const Patch other = [from = from](const ReadTensor& read) { return read(from); };
    change.undo[to] = change.make[to] = other;
  }
}

// Of a layer's tensors, in their order.
std::vector<std::pair<std::int64_t, std::int64_t>> shapes_of(const Architecture& architecture,
                                                             std::int64_t layer) {
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const auto& spec : parameter_specs(architecture, layer)) {
    shapes.emplace_back(spec.rows, spec.cols);
  }
  return shapes;
}

}  // namespace

void add_gate_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  if (layer < 0 || !pair.architecture.layer(layer).ffn.gated) return;
  Change change{
      Mistake::gate_up_swapped, "gate and up were exchanged", "exchange them", {}, {}, {}};
  const std::string at = fmt::format("layers.{}.ffn.", layer);
  exchange(change, at + "gate.weight", at + "up.weight");
  const FeedForward::Biases& biases = pair.architecture.layer(layer).ffn.biases;
  if (biases.gate && biases.up) exchange(change, at + "gate.bias", at + "up.bias");
  if (pair.architecture.layer(layer).ffn.experts.shared_width > 0) {
    Change of_shared = change;
    of_shared.undo.clear();
    of_shared.make.clear();
    of_shared.what = "gate and up of the shared expert were exchanged";
    exchange(of_shared, at + "shared.gate.weight", at + "shared.up.weight");
    changes.push_back(std::move(of_shared));
  }
  changes.push_back(std::move(change));
}

std::optional<Change> layer_exchange(const Pair& pair, std::int64_t first, std::int64_t second) {
  if (shapes_of(pair.architecture, first) != shapes_of(pair.architecture, second)) {
    return std::nullopt;
  }
  Change change{Mistake::layers_exchanged,
                fmt::format("layers {} and {} were exchanged", first, second),
                "exchange them",
                {},
                {},
                {}};
  const auto a = tensors_of(pair.architecture, first), b = tensors_of(pair.architecture, second);
  for (std::size_t i = 0; i < a.size(); ++i) exchange(change, a[i], b[i]);
  return change;
}

void add_transpose_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  const Architecture& a = pair.architecture;
  for (const auto& spec : parameter_specs(a, layer)) {
    if (spec.rows == 1 || spec.cols == 1) continue;
    // A file's rows of q and k may be in the order of halves.
    const bool q = spec.name.ends_with("attn.q.weight"), k = spec.name.ends_with("attn.k.weight");
    std::int64_t heads = 1, rotating = 0;
    if (q || k) {
      const Attention& attention = a.layer(layer).attention;
      heads = q ? attention.heads : attention.kv_heads;
      rotating = pair.halves && !attention.has_latents() ? attention.rotary_dims : 0;
    }
    const Order layout = halves_order(spec.cols, heads, rotating);
    const auto turn = [layout](bool back) {
      return [=](const Matrix<double>& m) -> Matrix<double> {
        return reordered(sideways(reordered(m, inverse(layout)), back), layout);
      };
    };
    const bool square = spec.rows == spec.cols;
    const std::string what =
        square ? "transposed" : "its numbers were read in the order of the transposed matrix";
    for (const bool back : {true, false}) {
      if (square && !back) continue;
      Change change{Mistake::transposed,
                    what,
                    "transpose it",
                    {fmt::format("{}, {}", name_in_layer(spec.name), back)},
                    {},
                    {}};
      change.undo[spec.name] = changed(spec.name, turn(back));
      change.make[spec.name] = changed(spec.name, turn(!back));
      changes.push_back(std::move(change));
    }
  }
}

}  // namespace regauge
