#include "calculus_tables.h"

#include "calculus_positions.h"

namespace regauge::calculus_system {

std::vector<Tensor> summed_tables(const Architecture& a, const Tensors& tensors,
                                  const std::string& stack) {
  const auto has = [&](const std::string& name) { return tensors.contains(name); };
  const auto tensor = [&](const std::string& name) -> const Tensor& { return tensors.at(name); };
  const std::int64_t first = a.placed_rows();
  std::vector<Tensor> tables;
  if (a.input == Input::tokens) {
    const bool own = has(stack + "embed.tokens");
    const Tensor& tokens = tensor(own ? stack + "embed.tokens" : "embed.tokens");
    tables.push_back({a.embedding_scale * tokens.value, a.embedding_scale * tokens.change});
    // Nothing in its place; with it, the others are read at any length.
    for (Index i = 0; a.dropped_token >= 0 && i < a.width; ++i) {
      tables.back().value(a.dropped_token, i) = 0;
      tables.back().change(a.dropped_token, i) = {};
    }
  } else if (has("embed.input.bias")) {
    tables.push_back(tensor("embed.input.bias"));
  } else {
    tables.push_back({Dense::Zero(1, a.width), Forms(1, a.width)});
  }
  if (a.position_table == PositionTable::learned && a.max_positions > first) {
    const Tensor& positions = tensor(stack + "embed.positions");
    const Index rows = a.max_positions - first;
    tables.push_back({positions.value.bottomRows(rows),
                      positions.change.block(first, 0, rows, a.token_width())});
  }
  if (a.position_table == PositionTable::sinusoidal && a.max_positions > first) {
    const Dense positions = sinusoidal_hull(a, first);
    tables.push_back({positions, Forms(positions.rows(), a.width)});
  }
  if (has("embed.types")) tables.push_back(tensor("embed.types"));
  return tables;
}

Tensor leading_rows(const Architecture& a, const Tensors& tensors, bool registers) {
  Tensor row = tensors.at("embed.class_token");
  if (a.position_table == PositionTable::learned) {
    row.value += tensors.at("embed.positions").value.row(0);
    row.change += tensors.at("embed.positions").change.row(0);
  }
  if (a.position_table == PositionTable::sinusoidal) row.value += sinusoidal_hull(a, 0).row(0);
  if (a.distillation_token) {
    const Tensor& other = tensors.at("embed.distillation_token");
    const Tensor& positions = tensors.at("embed.positions");
    row = {with_row(row.value, other.value + positions.value.row(1)),
           stack(row.change, other.change + positions.change.row(1))};
  }
  if (!registers || a.registers == 0) return row;
  const Tensor& others = tensors.at("embed.registers");
  return {with_row(row.value, others.value), stack(row.change, others.change)};
}

Tensor rows_alone(const Architecture& a, const Tensors& tensors, bool registers) {
  if (a.input == Input::vectors) return leading_rows(a, tensors, registers);
  const auto bias = tensors.find("embed.input.bias");
  return bias != tensors.end() ? bias->second : Tensor{Dense::Zero(1, a.width), Forms(1, a.width)};
}

void require_relative_bias(System& system, const Architecture& model, const Tensors& tensors,
                           std::int64_t layer) {
  const Attention& a = model.layer(layer).attention;
  const std::int64_t owner = a.shares_table ? model.stack_of(layer) : layer;
  const Tensor& table = tensors.at("layers." + std::to_string(owner) + ".attn.relative_bias");
  const Forms shift = system.wire(1, a.heads, System::sublayer);
  if (a.grid) {  // one for what patches ask, one for what the class token asks
    const Forms other = system.wire(1, a.heads, System::sublayer);
    const Index rows = table.value.rows();
    const bool last = layer + 1 == model.layers;
    for (Index row = 0; row < rows; ++row) {
      const bool asked_by_class = row == rows - 3 || row == rows - 1;
      // What the last layer writes to a position that nothing reads does not count.
      if (last && (asked_by_class ? model.mean_norm : model.reads_one_position())) continue;
      system.require(table.change.row(row) - (asked_by_class ? other : shift));
    }
    return;
  }
  for (const auto b : reached_buckets(model, layer)) system.require(table.change.row(b) - shift);
}

}  // namespace regauge::calculus_system
