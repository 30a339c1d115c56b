#include <fmt/format.h>

#include "builder.h"

namespace regauge {

Reader SymmetryBuilder::add_reader(const std::string& name, bool has_bias, const Wire& wire,
                                   Axis cols) {
  const Reader reader{name + ".weight", has_bias ? name + ".bias" : "", false};
  tensor(reader.weight).rows = reader_rows(wire);
  if (has_bias) tensor(reader.bias).cols = cols;
  tensor(reader.weight).cols = std::move(cols);
  if (!wire.norm.empty()) symmetry_.norms.at(wire.norm).readers.push_back(reader);
  add_reader_shift(wire.norm, reader);
  return reader;
}

void SymmetryBuilder::add_writer(const std::string& name, bool has_bias, const Wire& wire,
                                 Axis rows, const std::string& behind) {
  Axis cols = writer_cols(wire);
  const bool scaled = symmetry_.norms.contains(behind);  // by a layer scale
  if (scaled && rotates_) {
    cols.front().through = behind;
    cols.front().before = true;
  } else if (scaled) {
    cols.insert(cols.begin(), {.space = behind, .dual = true, .take = AxisPart::Take::diagonal});
  } else if (!behind.empty()) {
    cols = stream_axis();
    cols.insert(cols.begin(), {.space = behind, .take = AxisPart::Take::diagonal});
    append_scalar(cols, behind + ".scale", a_.width, false);
  }
  tensor(name + ".weight").rows = std::move(rows);
  if (has_bias) tensor(name + ".bias").cols = cols;
  tensor(name + ".weight").cols = std::move(cols);
  if (!layer_norm()) return;
  const std::string layer_scale = scaled ? behind : "";
  add_writer_shift(name + ".weight", layer_scale);
  if (has_bias) add_writer_shift(name + ".bias", layer_scale);
}

// The constants of one sub-layer: of its norm or input wire, and of its values (`reader`: v for
// attention).
void SymmetryBuilder::add_constants(std::int64_t layer, bool attention, const Reader& reader) {
  const Wire wire = wire_into(layer, attention);
  if (attention && a_.repeats_layers()) return add_value_shift(layer, reader, wire);
  const std::string at = fmt::format("layers.{}.{}", layer, attention ? "attn" : "ffn");
  if (plain() && !(attention && reads_embedding(layer))) {
    const bool read_again = attention && a_.layer(layer).shared_norm;
    if (constant_behind(wire.norm) && !read_again) {
      add_norm_shift(wire.norm, stream_axis(wire.stream), {});
    }
    if (attention) add_value_shift(layer, reader, wire_into_keys(layer));
    return;
  }
  // After a post-norm, or behind the embedding's that a bare attention reads, the wire is also the
  // residual: its constant c meets the sum again, where the sub-layer's output must bring -c.
  const Attention& of = this->attention(layer);
  const bool has_taker = attention ? of.biases.o : feed_forward(layer).biases.down;
  const std::int64_t values = of.kv_heads * of.v_width;
  if (wire.norm.empty()) {
    const std::int64_t free = raw_wire_constants(layer);
    if (has_taker) {
      add_counted_shift(at + ".input.constant", free);
      add_value_shift(layer, reader, wire_into_keys(layer));
    } else {
      const std::int64_t unknowns = free + (of.biases.v ? values : 0);
      add_counted_shift(at + ".constants", std::max<std::int64_t>(0, unknowns - visible_width()));
    }
  } else if (!constant_behind(wire.norm)) {
    if (attention) add_value_shift(layer, reader, wire_into_keys(layer));
  } else if (has_taker) {
    Effect taker;
    taker.kind = Effect::Kind::add_gained;
    taker.tensor = at + (attention ? ".o.bias" : ".down.bias");
    taker.norm = wire.norm;
    taker.factor = -1;
    add_norm_shift(wire.norm, stream_axis(), {taker});
    if (attention) add_value_shift(layer, reader, wire_into_keys(layer));
  } else {
    // c in R^D and the values' constant against all that the next norm sees.
    add_counted_shift(at + ".constants", a_.width + (attention ? values : 0) - visible_width());
  }
}

// The constant of the one wire that the embedding's map and every layer write: what reads it makes
// up for it, and where it meets the sum again, attention brings it back. What counts as it is has
// none.
void SymmetryBuilder::add_repeated_constants() {
  if (a_.output.has(Output::hidden)) return;
  const std::string norm = a_.last_norm(a_.layers - 1);
  std::vector<Effect> further;
  const auto gained = [&](std::string tensor, double factor) {
    Effect effect;
    effect.kind = Effect::Kind::add_gained;
    effect.tensor = std::move(tensor);
    effect.norm = norm;
    effect.factor = factor;
    further.push_back(std::move(effect));
  };
  gained("embed.map.bias", 1);
  for (std::int64_t layer = 0; layer < a_.layers; ++layer) {
    const std::string at = fmt::format("layers.{}.attn", layer);
    for (const char* reader : {".q", ".k", ".v"}) {
      Effect effect;
      effect.kind = Effect::Kind::norm_reader;
      effect.tensor = at + reader + ".weight";
      effect.target = at + reader + ".bias";
      effect.norm = norm;
      further.push_back(std::move(effect));
    }
    gained(at + ".o.bias", -1);
    if (layer + 1 < a_.layers) gained(a_.last_norm(layer) + ".bias", 1);
  }
  add_norm_shift(norm, stream_axis(), std::move(further));
}

// Constants of the raw sum of embedding tables that its readers can take: none where no table can
// shift, and only those that a query (or a rotating key) without a bias does not see.
std::int64_t SymmetryBuilder::raw_wire_constants(std::int64_t layer) const {
  const bool learned = a_.position_table == PositionTable::learned;
  const bool shifts = a_.input == Input::tokens ? learned || a_.token_types > 0 ||
                                                      !is_tied(layer) || a_.forgets_common_logit()
                                                : learned || a_.input_bias;
  return shifts ? std::max<std::int64_t>(0, a_.width - seen_of_raw_constant(layer)) : 0;
}

// Numbers that a constant in what a stack's first layer reads, a raw sum, must not change.
std::int64_t SymmetryBuilder::seen_of_raw_constant(std::int64_t layer) const {
  const Attention& a = attention(layer);
  std::int64_t seen = 0;
  if (!a.biases.q) seen += a.heads * a.qk_width;
  const auto still = RotaryClasses(a.qk_width, pair_characters(a)).still;
  const bool softmax_forgets = !a.has_qk_norm() && a.forgets_common_logit();
  const std::int64_t invisible = softmax_forgets ? static_cast<std::int64_t>(still.size()) : 0;
  if (!a.biases.k) seen += a.kv_heads * (a.qk_width - invisible);
  return seen;
}

}  // namespace regauge
