#include "calculus_layer_tables.h"

#include <cmath>
#include <string>
#include <vector>

#include "regauge/base/random.h"

namespace regauge::calculus_system {
namespace {

// Vectors of the input stand for all of them: so many that no change fits them by chance.
std::vector<Tensor> some_vectors(const Tensors& tensors, Index count) {
  const Tensor& map = tensors.at("embed.input.weight");
  Random random(0, "vectors");
  std::vector<Tensor> embedded;
  for (Index i = 0; i < count; ++i) {
    Dense vector(1, map.value.rows());
    for (auto& entry : vector.reshaped()) entry = random.normal();
    embedded.push_back({vector * map.value, vector * map.change});
    if (const auto bias = tensors.find("embed.input.bias"); bias != tensors.end()) {
      embedded.back().value += bias->second.value;
      embedded.back().change += bias->second.change;
    }
  }
  return embedded;
}

}  // namespace

// Behind the activation coordinates do not change, so that each input has a linear map of its own,
// diag(p) W, whose image its norm may turn and (with eps = 0) scale.
Dense from_table(System& system, const Architecture& a, const Tensors& tensors, std::int64_t layer,
                 const Wire& raw, const Forms& stream, Mistake mistake) {
  const Index d = a.width, r = a.table_width;
  const std::string at = "layers." + std::to_string(layer) + ".table.";
  const auto tensor = [&](const char* name) -> const Tensor& { return tensors.at(at + name); };
  const Tensor &map = tensor("map.weight"), &rows = tensor("tokens"), &down = tensor("down.weight");
  const Tensor& tokens = tensors.at("embed.tokens");
  const Wire hidden =
      activated(system, a.layer(layer).ffn.activation, product(raw, tensor("gate.weight"), 0, r));
  std::vector<std::pair<Tensor, Index>> inputs;  // and the row of the table that each reads
  for (Index v = 0; v < a.vocabulary; ++v) {
    inputs.push_back(
        {{a.embedding_scale * tokens.value.row(v), a.embedding_scale * tokens.change.row(v)}, v});
  }
  if (a.input_width > 0 && mistake != Mistake::vectors_forgotten) {
    for (Tensor& vector : some_vectors(tensors, 2 * d + 6)) {
      inputs.emplace_back(std::move(vector), a.vector_row);
    }
  }
  Tensor gain = tensors.at("embed.tables.norm.gain");
  if (mistake == Mistake::table_gain_apart) gain.change = system.parameter(1, r, System::shared);
  const double over_root = 1 / std::sqrt(static_cast<double>(d));
  const double of_rows = std::sqrt(static_cast<double>(r));
  Dense written(0, d);
  for (const auto& [e, row] : inputs) {
    const Tensor mapped{over_root * e.value * map.value,
                        over_root * (e.change * map.value + e.value * map.change)};
    const Wire own = norm_of_row(mapped, gain, Dense::Identity(r, r), a.norm_eps);
    const Dense p = (own.value + of_rows * rows.value.row(row)) / std::sqrt(2.0);
    const Forms change = (1 / std::sqrt(2.0)) * (own.change + of_rows * rows.change.row(row));
    const Dense diagonal_p = p.row(0).asDiagonal();
    const Dense out = hidden.value * diagonal_p * down.value;
    const Forms turn = system.skew(d, System::sublayer);
    Forms total = turn;
    if (a.norm_eps == 0) total += diagonal(same(system.wire(1, 1, System::sublayer), d));
    system.require(hidden.value * (diagonal(change) * down.value) +
                   hidden.value * diagonal_p * down.change - out * total);
    const Wire normed = turned_units(out, Dense::Identity(d, d), turn, tensor("post_norm.gain"));
    system.require(normed.change - normed.value * stream);
    written = with_row(written, normed.value);
  }
  return row_basis(written);
}

}  // namespace regauge::calculus_system
