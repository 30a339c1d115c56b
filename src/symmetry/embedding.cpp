#include <fmt/format.h>

#include "arch/transform_norm.h"
#include "builder.h"

namespace regauge {

void SymmetryBuilder::add_embedding() {
  Axis cols = stream_axis(table_stream());
  append_scalar(cols, embedding_scale_space(), a_.token_width(), false);
  const bool pinned = rotates_ && a_.position_table == PositionTable::sinusoidal;
  // The norm that reads the tables, where it is a layer norm, does not see their mean.
  const bool mean_unseen = layer_norm() && (plain() || a_.embedding_norm) && !a_.has_positional();
  const auto add_table = [&](const std::string& name, bool shifted, bool may_shift) {
    if (!symmetry_.tensors.contains(name)) return;
    tensor(name).cols = cols;
    tensor(name).pinned = pinned && shifted;
    if (name == "embed.tokens" && has_space("embed.rows")) {
      tensor(name).rows = {{.space = "embed.rows"}};
    }
    if (mean_unseen && may_shift) add_writer_shift(name);
  };
  add_table("embed.tokens", true, !a_.tied);
  add_table("embed.input.weight", false, true);
  add_table("embed.input.bias", true, true);
  add_table("embed.class_token", true, true);
  add_table("embed.distillation_token", true, true);
  add_table("embed.registers", false, true);
  add_table("embed.positions", false, true);
  add_table("embed.types", false, true);
  add_table("encoder.embed.tokens", true, true);
  add_convolutions();
  if (a_.encodes_vectors()) cols = stream_axis(stream_of(0));
  add_table("encoder.embed.positions", false, true);
  add_embedding_exchanges();
  if (a_.maps_embedding()) return add_embedding_map();
  if (!a_.embedding_norm) return;
  add_embedding_norm(a_.encoder_layers);
  if (a_.encoder_layers > 0) add_embedding_norm(0);
}

// The norm of narrow tables, and the map that reads it and writes to the stream.
void SymmetryBuilder::add_embedding_map() {
  const std::string norm = "embed.norm", stream = table_stream();
  add_gain_space(norm, stream);
  add_pre_norm(norm, stream);
  const Wire wire{norm, "", turns(stream) ? stream : "", stream};
  add_reader("embed.map", true, wire, writer_cols(wire_into(0, true)));
  add_norm_shift(norm, stream_axis(stream), {});
}

// What writes to the stream behind a layer, where vectors stand.
void SymmetryBuilder::add_deep_input(std::int64_t layer) {
  Axis cols = stream_axis();
  append_scalar(cols, "residual.scale", a_.width, false);
  for (const char* name : {".input.weight", ".input.bias"}) {
    const auto found = symmetry_.tensors.find(fmt::format("layers.{}{}", layer, name));
    if (found != symmetry_.tensors.end()) found->second.cols = cols;
  }
}

void SymmetryBuilder::add_embedding_norm(std::int64_t layer) {
  const std::string name = a_.embedding_of(layer) + std::string(".norm");
  const Wire first = wire_into(layer, true);
  Axis gain;
  if (has_space("residual")) {
    gain.push_back({.space = "residual", .take = AxisPart::Take::permutation});
  }
  append_scalar(gain, plain() ? "residual.scale" : first.scale, a_.width, false);
  add_norm(name, gain, writer_cols(first));
  const bool read_by_norms = plain() && !a_.bare_first_attention;
  if (read_by_norms && constant_behind(name)) add_writer_shift(name + ".bias");
}

std::string SymmetryBuilder::head_norm() const {
  if (a_.head_transform) return transform_norm(a_);
  return a_.has_final_norm() ? "head.norm" : a_.last_norm(a_.layers - 1);
}

std::string SymmetryBuilder::embedding_scale_space() const {
  if (a_.embedding_norm) return "embed.scale";
  return plain() ? "residual.scale" : wire_into(0, true).scale;
}

// A constant may move from one table to another that is added to the same rows.
void SymmetryBuilder::add_embedding_exchanges() {
  const bool mean_unseen = layer_norm() && (plain() || a_.embedding_norm);
  const Axis axis = tensor(a_.input == Input::tokens ? "embed.tokens" : "embed.input.weight").cols;
  const auto exchange = [&](std::string name, Effect from, Effect to, bool mean_counted) {
    Shift shift;
    shift.name = std::move(name);
    shift.length = a_.token_width();
    shift.sums_to_zero = mean_unseen && mean_counted;  // the mean is a writer's shift already
    shift.dimension = shift.length - (shift.sums_to_zero ? 1 : 0);
    shift.axis = axis;
    shift.effects = {std::move(from), std::move(to)};
    add_shift(std::move(shift));
  };
  const auto rows = [](std::string tensor, double factor, std::int64_t first = 0,
                       std::int64_t last = -1) {
    Effect effect;
    effect.tensor = std::move(tensor);
    effect.factor = factor;
    effect.first_row = first;
    effect.last_row = last;
    return effect;
  };
  const bool learned = a_.position_table == PositionTable::learned;
  if (a_.input == Input::vectors) {
    const std::int64_t first = a_.placed_rows();
    if (learned && a_.input_bias) {
      exchange("embed.exchange.input", rows("embed.input.bias", 1),
               rows("embed.positions", -1, first), true);
    }
    if (learned && a_.class_token) {
      exchange("embed.exchange.class_token", rows("embed.class_token", 1),
               rows("embed.positions", -1, 0, 1), true);
    }
    if (learned && a_.distillation_token) {
      exchange("embed.exchange.distillation_token", rows("embed.distillation_token", 1),
               rows("embed.positions", -1, 1, 2), true);
    }
    return;
  }
  // Of a row that a tied head alone reads its norm does not see the part along 1/gain.
  if (a_.dropped_token >= 0 && a_.tied && layer_norm() && (!a_.norm_bias || a_.head_bias)) {
    add_counted_shift("embed.tokens.dropped", 1);
  }
  if (a_.dropped_token >= 0 && !a_.tied) {
    Shift shift;  // a row that nothing reads
    shift.name = "embed.tokens.dropped";
    shift.length = a_.width;
    shift.sums_to_zero = mean_unseen;  // the mean is a writer's shift already
    shift.dimension = a_.width - (mean_unseen ? 1 : 0);
    shift.axis = axis;
    shift.effects = {rows("embed.tokens", 1, a_.dropped_token, a_.dropped_token + 1)};
    add_shift(std::move(shift));
  }
  if (learned && a_.token_types > 0) {
    exchange("embed.exchange.types", rows("embed.types", 1), rows("embed.positions", -1), true);
  }
  const std::string other = learned ? "embed.positions" : a_.token_types > 0 ? "embed.types" : "";
  // A tied table may take a constant only where logits count up to a constant, or along 1/gain of
  // the norm in front of the head, which that norm does not let through.
  if (a_.tied && !a_.forgets_common_logit()) {
    const bool unseen = layer_norm() && (!a_.norm_bias || a_.head_bias);
    // Another table takes it out of the stream, or the biases that read the raw sum do.
    const auto takes = [&](std::int64_t layer) {
      return !is_tied(layer) || (attention(layer).biases.o && seen_of_raw_constant(layer) == 0);
    };
    const bool raw = !plain() && !a_.embedding_norm && takes(0) && takes(a_.encoder_layers);
    if (unseen && (!other.empty() || raw)) add_counted_shift("embed.exchange.tied", 1);
    return;
  }
  // What a tied table adds to all logits alike is kept out of a head's bias.
  const bool meets_bias = a_.tied && a_.head_bias && constant_behind(head_norm());
  const auto keep_out = [&](Effect& effect) {
    if (!meets_bias) return;
    effect.target = "head.bias";
    effect.norm = head_norm();
  };
  if (!other.empty()) {
    Effect tokens = rows("embed.tokens", 1 / a_.embedding_scale);
    keep_out(tokens);
    exchange("embed.exchange.tokens", tokens, rows(other, -1), !a_.tied);
  } else if (a_.tied && mean_unseen) {
    Shift shift;
    shift.name = "embed.tokens.mean";
    shift.length = shift.dimension = 1;
    append_scalar(shift.axis, table_stream() + ".sign", 1, false);
    append_scalar(shift.axis, embedding_scale_space(), 1, false);
    Effect effect;
    effect.kind = Effect::Kind::add_all;
    effect.tensor = "embed.tokens";
    keep_out(effect);
    shift.effects = {effect};
    add_shift(std::move(shift));
  }
}

}  // namespace regauge
