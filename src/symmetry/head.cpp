#include <fmt/format.h>

#include "arch/transform_norm.h"
#include "builder.h"

namespace regauge {

// The outputs and what leads to them. All of them read one wire, the stream behind its last norm.
void SymmetryBuilder::add_head() {
  std::string norm = plain() ? "head.norm" : a_.last_norm(a_.layers - 1);
  const bool seen = a_.output.has(Output::hidden);
  if (plain()) {
    if ((!a_.tied || a_.head_transform) && !seen) add_gain_space(norm);
    add_pre_norm(norm);
  }
  Wire wire{norm, ""};
  if (a_.repeats_layers()) wire = wire_into(a_.layers, true);
  if (a_.pooler) add_pooler(wire);
  Reader classes;
  const bool classes_alone = a_.output.has(Output::classes) && !a_.transforms_classes();
  if (classes_alone) classes = add_classes(wire);
  if (a_.distillation_head) {
    const std::string other = "head.distillation";
    add_end_reader(wire, {other + ".weight", a_.head_bias ? other + ".bias" : "", false}, {});
  }
  Axis shift_axis = stream_axis();
  const bool has_main_head = a_.output.has(Output::tokens) || a_.transforms_classes();
  if (has_main_head) {
    Axis head_rows = reader_rows(wire);
    if (a_.head_transform) {
      add_head_transform(wire);
      norm = transform_norm(a_);
      // Behind the transform the coordinates are its neurons', or the tied table's.
      shift_axis = tensor("head.transform.weight").cols;
      if (has_space("head.transform.scale")) shift_axis.pop_back();
      head_rows.clear();
      if (has_space("head.transform")) {
        head_rows = {{.space = norm, .dual = true, .take = AxisPart::Take::diagonal},
                     {.space = "head.transform", .dual = true}};
      }
    }
    add_token_head(norm, std::move(head_rows));
  }
  if (a_.repeats_layers()) add_repeated_constants();
  const bool repeated = a_.repeats_layers() && !a_.head_transform;  // that one
  const bool may_shift = !repeated && (!seen || a_.head_transform) && (!a_.tied || a_.head_bias);
  if (constant_behind(norm) && may_shift && !symmetry_.norms.at(norm).readers.empty()) {
    add_norm_shift(norm, shift_axis, {});
  }
  if (!a_.forgets_common_logit()) return;
  if (has_main_head) {
    add_log_probability_shifts({"head.weight", a_.head_bias ? "head.bias" : "", false}, norm,
                               shift_axis);
  }
  if (classes_alone) {
    add_log_probability_shifts(classes, a_.classes_pooled ? "" : wire.norm, stream_axis());
  }
}

void SymmetryBuilder::add_token_head(const std::string& norm, Axis rows) {
  const std::string bias = a_.head_bias ? "head.bias" : "";
  NormSite& site = symmetry_.norms.at(norm);
  if (a_.tied) {
    // A change of the table's length is undone by the norm in front of the head.
    append_scalar(tensor(site.gain()).cols, embedding_scale_space(), a_.head_width(), true);
    if (a_.norm_bias) {
      append_scalar(tensor(site.bias).cols, embedding_scale_space(), a_.head_width(), true);
    }
    site.readers.push_back({"embed.tokens", bias, true});
    return;
  }
  const Reader head{"head.weight", bias, false};
  tensor(head.weight).rows = std::move(rows);
  site.readers.push_back(head);
  add_reader_shift(norm, head);
}

// The rows of what reads the last wire beside a head of tokens: where that is tied, the gain in
// front of both may have another length.
Axis SymmetryBuilder::end_rows(const Wire& wire) const {
  Axis rows = reader_rows(wire);
  if (a_.tied && !a_.head_transform) {
    append_scalar(rows, embedding_scale_space(), a_.width, false);
  }
  return rows;
}

void SymmetryBuilder::add_end_reader(const Wire& wire, const Reader& reader, Axis cols) {
  tensor(reader.weight).rows = end_rows(wire);
  if (!reader.bias.empty()) tensor(reader.bias).cols = cols;
  tensor(reader.weight).cols = std::move(cols);
  symmetry_.norms.at(wire.norm).readers.push_back(reader);
  add_reader_shift(wire.norm, reader);
}

// Its units change places where only classes read them: with their signs behind tanh, with a factor
// behind a ReLU.
void SymmetryBuilder::add_pooler(const Wire& wire) {
  Axis units;
  if (!a_.output.has(Output::pooled)) {
    const bool odd = a_.pooler_activation == Activation::tanh;
    const bool relu = a_.pooler_activation == Activation::relu;
    add_space({.name = "head.pooler",
               .category = Category::ffn,
               .group = Scaling(odd    ? Scaling::Kind::signs
                                : relu ? Scaling::Kind::positive
                                       : Scaling::Kind::trivial),
               .count = a_.width,
               .shuffle = Shuffle::symmetric});
    units = {{.space = "head.pooler"}};
  }
  add_end_reader(wire, {"head.pooler.weight", "head.pooler.bias", false}, std::move(units));
}

Reader SymmetryBuilder::add_classes(const Wire& wire) {
  const std::string name = a_.classes_head();
  const Reader reader{name + ".weight", a_.head_bias ? name + ".bias" : "", false};
  if (!a_.classes_pooled) {
    add_end_reader(wire, reader, {});
  } else if (has_space("head.pooler")) {
    tensor(reader.weight).rows = {{.space = "head.pooler", .dual = true}};
  }
  return reader;
}

void SymmetryBuilder::add_head_transform(const Wire& wire) {
  Axis neurons;
  Axis gain;
  if (a_.tied) {
    const std::string stream = table_stream();
    if (has_space(stream)) {
      neurons = {{.space = stream, .take = AxisPart::Take::permutation}};
      gain = {{.space = stream}};
    }
    append_scalar(gain, stream + ".sign", a_.head_width(), false);
  } else {
    add_space({.name = "head.transform",
               .category = Category::ffn,
               .count = a_.head_width(),
               .shuffle = Shuffle::symmetric});
    neurons = gain = {{.space = "head.transform"}};
  }
  if (lengths_free_ && feed_forward(0).activation == Activation::relu) {
    add_space({.name = "head.transform.scale",
               .category = Category::scales,
               .group = Scaling(Scaling::Kind::positive)});
    append_scalar(neurons, "head.transform.scale", a_.head_width(), false);
  }
  const Reader reader{"head.transform.weight", a_.transform_bias ? "head.transform.bias" : "",
                      false};
  tensor(reader.weight).rows = reader_rows(wire);
  tensor(reader.weight).cols = neurons;
  if (a_.transform_bias) tensor(reader.bias).cols = neurons;
  symmetry_.norms.at(wire.norm).readers.push_back(reader);
  add_reader_shift(wire.norm, reader);
  if (constant_behind(wire.norm) && !a_.output.has(Output::hidden) && !a_.repeats_layers()) {
    add_norm_shift(wire.norm, stream_axis(), {});
  }
  const std::string norm = transform_norm(a_);
  if (!a_.tied) add_gain_space(norm, "head.transform");
  add_norm(norm, gain, gain);
}

// Log-probabilities do not see a number that is added to all logits. `norm`: what the head reads,
// or nothing for a pooler.
void SymmetryBuilder::add_log_probability_shifts(const Reader& head, const std::string& norm,
                                                 const Axis& axis) {
  if (!head.bias.empty()) add_common_constant(head.bias);
  if (norm.empty()) {
    Shift shift;
    shift.name = head.weight + ".constant";
    shift.length = shift.dimension = a_.width;
    shift.axis = tensor(head.weight).rows;
    Effect effect;
    effect.kind = Effect::Kind::add_columns;
    effect.tensor = head.weight;
    shift.effects = {effect};
    add_shift(std::move(shift));
  } else if (symmetry_.tensors.contains(head.weight)) {  // or else it is tied
    add_common_column(head, norm, axis);
  }
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
  shift.length = rows(reader.weight);
  // Along 1 the freedom is that of the unread part, or of the constant below.
  shift.sums_to_zero = layer_norm();
  shift.dimension = shift.length - (layer_norm() ? 1 : 0);
  shift.axis = std::move(axis);
  for (auto& part : shift.axis) part.dual = true;
  Effect effect;
  effect.kind = Effect::Kind::reader_columns;
  effect.tensor = reader.weight;
  if (constant_behind(norm)) effect.target = reader.bias;
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
