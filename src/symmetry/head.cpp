#include <fmt/format.h>

#include "builder.h"

namespace regauge {

void SymmetryBuilder::add_head() {
  std::string norm = plain() ? "head.norm" : fmt::format("layers.{}.ffn.norm", a_.layers - 1);
  Axis shift_axis = stream_axis();
  if (plain()) {
    if (!a_.tied && a_.output != Output::hidden) add_gain_space(norm);
    add_pre_norm(norm);
  }
  if (a_.output == Output::hidden) return;
  Wire wire{norm, ""};
  Axis head_rows = reader_rows(wire);
  if (a_.head_transform) {
    add_head_transform(wire);
    norm = "head.norm";
    // Behind the transform the coordinates are its neurons', or the tied table's.
    shift_axis = tensor("head.transform.bias").cols;
    if (has_space("head.transform.scale")) shift_axis.pop_back();
    head_rows.clear();
    if (has_space("head.transform")) {
      head_rows = {{.space = norm, .dual = true, .take = AxisPart::Take::diagonal},
                   {.space = "head.transform", .dual = true}};
    }
  }
  const std::string bias = a_.head_bias ? "head.bias" : "";
  NormSite& site = symmetry_.norms.at(norm);
  if (a_.tied) {
    // A change of the table's length is undone by the norm in front of the head.
    append_scalar(tensor(site.gain()).cols, embedding_scale_space(), a_.width, true);
    if (a_.norm_bias) {
      append_scalar(tensor(site.bias).cols, embedding_scale_space(), a_.width, true);
    }
    site.readers.push_back({"embed.tokens", bias, true});
  } else {
    const Reader head{"head.weight", bias, false};
    tensor(head.weight).rows = std::move(head_rows);
    site.readers.push_back(head);
    add_reader_shift(norm, head);
  }
  if (constant_behind(norm) && (!a_.tied || a_.head_bias)) add_norm_shift(norm, shift_axis, {});
  if (a_.forgets_common_logit()) add_log_probability_shifts(norm, shift_axis);
}

void SymmetryBuilder::add_head_transform(const Wire& wire) {
  Axis neurons;
  Axis gain;
  if (a_.tied) {
    if (has_space("residual")) {
      neurons = {{.space = "residual", .take = AxisPart::Take::permutation}};
      gain = {{.space = "residual"}};
    }
    append_scalar(gain, "residual.sign", a_.width, false);
  } else {
    add_space({.name = "head.transform",
               .category = Category::ffn,
               .count = a_.width,
               .shuffle = Shuffle::symmetric});
    neurons = gain = {{.space = "head.transform"}};
  }
  if (lengths_free_ && feed_forward(0).activation == Activation::relu) {
    add_space({.name = "head.transform.scale",
               .category = Category::scales,
               .group = Scaling(Scaling::Kind::positive)});
    append_scalar(neurons, "head.transform.scale", a_.width, false);
  }
  const Reader reader{"head.transform.weight", "head.transform.bias", false};
  tensor(reader.weight).rows = reader_rows(wire);
  tensor(reader.weight).cols = neurons;
  tensor(reader.bias).cols = neurons;
  symmetry_.norms.at(wire.norm).readers.push_back(reader);
  add_reader_shift(wire.norm, reader);
  if (constant_behind(wire.norm)) add_norm_shift(wire.norm, stream_axis(), {});
  if (!a_.tied) add_gain_space("head.norm", "head.transform");
  add_norm("head.norm", gain, gain);
}

// Log-probabilities do not see a number that is added to all logits.
void SymmetryBuilder::add_log_probability_shifts(const std::string& norm, const Axis& axis) {
  if (a_.head_bias) add_common_constant("head.bias");
  if (!a_.tied)
    add_common_column({"head.weight", a_.head_bias ? "head.bias" : "", false}, norm, axis);
}

// A number added to all entries of a bias in front of a softmax.
void SymmetryBuilder::add_common_constant(const std::string& bias) {
  Shift shift;
  shift.name = bias + ".constant";
  shift.length = shift.dimension = 1;
  Effect effect;
  effect.kind = Effect::Kind::add_columns;
  effect.tensor = bias;
  shift.effects = {effect};
  add_shift(std::move(shift));
}

// What reads a norm writes into a softmax, which does not see what is common to all columns.
void SymmetryBuilder::add_common_column(const Reader& reader, const std::string& norm, Axis axis) {
  Shift shift;
  shift.name = reader.weight + ".constant";
  shift.length = a_.width;
  // Along 1 the freedom is that of the unread part, or of the constant below.
  shift.sums_to_zero = layer_norm();
  shift.dimension = visible_width();
  shift.axis = std::move(axis);
  for (auto& part : shift.axis) part.dual = true;
  Effect effect;
  effect.kind = Effect::Kind::reader_columns;
  effect.tensor = reader.weight;
  effect.target = reader.bias;
  effect.norm = norm;
  shift.effects = {effect};
  add_shift(std::move(shift));
  if (constant_behind(norm) && reader.bias.empty()) {
    Shift constant;
    constant.name = reader.weight + ".constant.behind_bias";
    constant.length = constant.dimension = 1;
    effect.kind = Effect::Kind::reader_constant;
    constant.effects = {effect};
    add_shift(std::move(constant));
  }
}

}  // namespace regauge
