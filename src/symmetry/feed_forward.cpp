#include <fmt/format.h>

#include "builder.h"

namespace regauge {

void SymmetryBuilder::add_feed_forward(std::int64_t layer) {
  const FeedForward& f = feed_forward(layer);
  const std::string at = fmt::format("layers.{}.ffn", layer);
  const std::string neurons = at + ".neurons";
  const bool relu = f.activation == Activation::relu;
  auto kind = Scaling::Kind::trivial;
  if (f.gated) kind = Scaling::Kind::nonzero;
  if (!f.gated && relu) kind = Scaling::Kind::positive;
  add_space({.name = neurons,
             .category = Category::ffn,
             .group = Scaling(kind),
             .count = f.width,
             .shuffle = Shuffle::symmetric});
  const bool gate_scales = f.gated && relu;
  Axis gate = {{.space = neurons, .take = AxisPart::Take::permutation}};
  Axis down = {{.space = neurons, .dual = true}};
  if (gate_scales) {
    add_space({.name = at + ".gates",
               .category = Category::ffn,
               .group = Scaling(Scaling::Kind::positive),
               .count = f.width,
               .shuffle = Shuffle::follows,
               .follows = neurons});
    gate = {{.space = at + ".gates"}};
    down.insert(down.begin(),
                {.space = at + ".gates", .dual = true, .take = AxisPart::Take::diagonal});
  }

  const Wire wire = wire_into(layer, false);
  if (a_.layer(layer).norms_input() && a_.layer(layer).has_ffn_norm()) {
    add_gain_space(at + ".norm");
    add_pre_norm(at + ".norm");
  }
  if (f.gated) add_reader(at + ".gate", f.biases.gate, wire, std::move(gate));
  const Reader up = add_reader(at + ".up", f.biases.up, wire, {{.space = neurons}});
  const std::string behind = a_.layer(layer).norms_output() ? at + ".post_norm" : "";
  if (!behind.empty()) add_output_norm(behind, f.width + (f.biases.down ? 1 : 0));
  add_writer(at + ".down", f.biases.down, wire, std::move(down), behind);
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
    const bool last = layer + 1 == a_.layers;
    // The last gain is read by the head alone and may be folded into it.
    if (last && a_.output != Output::hidden && (a_.head_transform || !a_.tied)) {
      add_gain_space(at + ".norm");
    }
    add_post_norm(at + ".norm", wire_into(layer + 1, true));
  }
}

}  // namespace regauge
