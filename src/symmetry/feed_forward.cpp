#include <fmt/format.h>

#include "arch/experts.h"
#include "builder.h"

namespace regauge {

// The maps of the feed-forward, or of the expert that all tokens see: neurons, in groups of one
// expert each, and what reads and writes them.
Reader SymmetryBuilder::add_neurons(std::int64_t layer, const std::string& at, const Wire& wire,
                                    std::int64_t count, std::int64_t group_size) {
  const FeedForward& f = feed_forward(layer);
  const std::string neurons = at + ".neurons";
  const bool relu = f.activation == Activation::relu;
  const bool squared = f.activation == Activation::relu_squared;
  auto kind = Scaling::Kind::trivial;
  if (f.gated) kind = Scaling::Kind::nonzero;
  // A clamp sees lengths, and an offset signs as well.
  if (f.limit > 0) kind = f.up_offset == 0 ? Scaling::Kind::signs : Scaling::Kind::trivial;
  if (!f.gated && (relu || squared)) kind = Scaling::Kind::positive;
  add_space({.name = neurons,
             .category = Category::ffn,
             .group = Scaling(kind),
             .count = count,
             .shuffle = group_size < count ? Shuffle::grouped : Shuffle::symmetric,
             .group_size = group_size < count ? group_size : 1,
             .bundles = group_size < count && groups_bind(f.experts) ? f.experts.groups : 1});
  const bool gate_scales = f.gated && relu && f.limit == 0;
  Axis gate = {{.space = neurons, .take = AxisPart::Take::permutation}};
  Axis down = {{.space = neurons, .dual = true}};
  // A length leaves a square twice.
  if (squared && kind == Scaling::Kind::positive) {
    down.insert(down.begin(), {.space = neurons, .dual = true, .take = AxisPart::Take::diagonal});
  }
  if (gate_scales) {
    add_space({.name = at + ".gates",
               .category = Category::ffn,
               .group = Scaling(Scaling::Kind::positive),
               .count = count,
               .shuffle = Shuffle::follows,
               .follows = neurons});
    gate = {{.space = at + ".gates"}};
    down.insert(down.begin(),
                {.space = at + ".gates", .dual = true, .take = AxisPart::Take::diagonal});
  }

  if (f.gated) add_reader(at + ".gate", f.biases.gate, wire, std::move(gate));
  const Reader up = add_reader(at + ".up", f.biases.up, wire, {{.space = neurons}});
  add_writer(at + ".down", f.biases.down, wire, std::move(down), norm_behind(layer, at));
  return up;
}

std::string SymmetryBuilder::norm_behind(std::int64_t layer, const std::string& at) const {
  const Layer& shape = a_.layer(layer);
  const std::string ffn = fmt::format("layers.{}.ffn", layer);
  if (shape.ffn.experts.own_norms) return (at == ffn ? at + ".experts" : at) + ".post_norm";
  if (shape.norms_output()) return ffn + ".post_norm";
  return shape.layer_scale ? ffn + ".layer_scale" : "";
}

// The norms that router, experts and the shared expert have beside those of the branch.
void SymmetryBuilder::add_own_norms(std::int64_t layer) {
  const FeedForward& f = feed_forward(layer);
  const std::string at = fmt::format("layers.{}.ffn", layer);
  for (const char* norm : {".router.norm", ".shared.norm"}) {
    add_gain_space(at + norm, stream_of(layer));
    add_pre_norm(at + norm, stream_of(layer));
  }
  add_output_norm(at + ".experts.post_norm", f.neurons(), at + ".post_norm");
  add_output_norm(at + ".shared.post_norm", f.experts.shared_width, at + ".post_norm");
}

// A factor of each expert is one of all that the expert writes.
void SymmetryBuilder::add_expert_scales(std::int64_t layer) {
  const Experts& experts = feed_forward(layer).experts;
  const std::string at = fmt::format("layers.{}.ffn", layer), name = at + ".experts.scale";
  Space factors{.name = name,
                .category = Category::norms,
                .group = Scaling(Scaling::Kind::nonzero),
                .count = experts.count};
  if (experts.count > 1) {
    factors.shuffle = Shuffle::follows;
    factors.follows = at + ".neurons";
  }
  add_space(std::move(factors));
  NormSite& site = symmetry_.norms[name];
  site.name = name;
  site.writer = at + ".down";
  tensor(site.gain()).cols = {{.space = name}};
  Axis& rows = tensor(at + ".down.weight").rows;
  rows.insert(rows.begin(), {.space = name,
                             .dual = true,
                             .take = AxisPart::Take::diagonal,
                             .repeat = feed_forward(layer).width});
}

void SymmetryBuilder::add_feed_forward(std::int64_t layer) {
  const FeedForward& f = feed_forward(layer);
  const std::string at = fmt::format("layers.{}.ffn", layer);
  if (a_.layer(layer).norms_input() && a_.layer(layer).has_ffn_norm()) {
    add_gain_space(at + ".norm", stream_of(layer));
    add_pre_norm(at + ".norm", stream_of(layer));
  }
  if (a_.layer(layer).norms_output()) {
    const std::int64_t width = f.neurons() + f.experts.shared_width + (f.biases.down ? 1 : 0);
    add_output_norm(at + ".post_norm", width);
  }
  if (f.experts.own_norms) add_own_norms(layer);
  if (a_.layer(layer).layer_scale) add_layer_scale(at + ".layer_scale", at + ".down");
  const Reader up = add_neurons(layer, at, wire_into(layer, false), f.neurons(), f.width);
  if (f.experts.scales) add_expert_scales(layer);
  if (f.experts.count > 0) add_router(layer);
  add_constants(layer, false, up);

  if (a_.layer(layer).parallel && attention(layer).biases.o && f.biases.down) {
    Shift shift;
    shift.name = fmt::format("layers.{}.exchange", layer);
    shift.length = a_.width;
    shift.sums_to_zero = layer_norm();
    shift.dimension = visible_width();
    shift.axis = tensor(at + ".down.bias").cols;
    Effect to;
    to.tensor = fmt::format("layers.{}.attn.o.bias", layer);
    Effect from;
    from.tensor = at + ".down.bias";
    from.factor = -1;
    shift.effects = {to, from};
    add_shift(std::move(shift));
  }
  if (!plain()) {
    const std::string norm = at + ".norm";
    const bool encoder = layer + 1 == a_.encoder_layers, last = layer + 1 == a_.layers;
    // The last gain is read by heads alone, the encoder's by keys and values: it may be folded into
    // them.
    const bool folds =
        !a_.output.has(Output::hidden) && (a_.head_transform || !a_.tied) && !a_.repeats_layers();
    if (encoder || (last && folds)) add_gain_space(norm);
    add_post_norm(norm, encoder ? Wire{norm, ""} : wire_into(layer + 1, true));
  }
}

// A router's columns move with the experts. Softmax does not see what all columns have in common;
// a sigmoid does. What is added where scores are compared counts up to a common number.
void SymmetryBuilder::add_router(std::int64_t layer) {
  const Experts& experts = feed_forward(layer).experts;
  const std::string at = fmt::format("layers.{}.ffn", layer);
  const Layer& shape = a_.layer(layer);
  const Wire wire =
      experts.own_norms ? wire_behind(layer, shape.norm_before_router()) : wire_into(layer, false);
  Axis columns;
  if (feed_forward(layer).width < feed_forward(layer).neurons()) {
    add_space({.name = at + ".experts",
               .category = Category::ffn,
               .count = experts.count,
               .shuffle = Shuffle::follows,
               .follows = at + ".neurons"});
    columns = {{.space = at + ".experts"}};
  }
  if (feed_forward(layer).biases.down) tensor(at + ".down.bias").rows = columns;
  if (experts.selection_bias) {
    tensor(at + ".selection.bias").cols = columns;
    add_common_constant(at + ".selection.bias");
  }
  const Reader router = add_reader(at + ".router", experts.router_bias, wire, std::move(columns));
  if (experts.router_bias) add_common_constant(router.bias);
  if (experts.scoring == Scoring::softmax) {
    Axis axis = stream_axis();
    // A norm forgets the stream's length and not its sign.
    if (const std::string length = stream_length(layer); has_space(length)) {
      axis.push_back({.space = length, .take = AxisPart::Take::signs, .repeat = a_.width});
    }
    add_common_column(router, wire.norm, std::move(axis));
  }
  if (experts.shared_width == 0) return;
  if (experts.shared_gate) add_reader(at + ".shared.router", false, wire, {});
  const Wire read = experts.own_norms ? wire_behind(layer, shape.norm_before_shared()) : wire;
  add_neurons(layer, at + ".shared", read, experts.shared_width, experts.shared_width);
}

}  // namespace regauge
