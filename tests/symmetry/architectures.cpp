#include "architectures.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "regauge/base/random.h"

namespace regauge {
namespace {

// Normed rows of a token table lie on an ellipsoid; fewer than D(D+5)/2 + 1 rows do not tell which.
constexpr std::int64_t kManyTokens = 34;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed, "architecture") {}

  bool yes(double probability = 0.5) { return random_.uniform() < probability; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + random_.below(high - low + 1);
  }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[random_.below(static_cast<std::int64_t>(values.size()))];
  }

 private:
  Random random_;
};

// Distinct, repeated or real (pi) frequencies, all or some coordinates.
void draw_rotary(Draw& draw, Architecture& a) {
  a.kinds[0].attention.positions = Positions::rotary;
  a.kinds[0].attention.rotary_dims = 2 * draw.between(1, a.kinds[0].attention.qk_width / 2);
  const std::int64_t pairs = a.kinds[0].attention.rotary_dims / 2;
  switch (draw.between(0, 3)) {
    case 0:
      a.kinds[0].attention.rotary_frequencies =
          rotary_frequencies(a.kinds[0].attention.rotary_dims, 100);
      break;
    case 1:
      a.kinds[0].attention.rotary_frequencies.assign(static_cast<std::size_t>(pairs), 0.7);
      break;
    case 2:
      a.kinds[0].attention.rotary_frequencies =
          rotary_frequencies(a.kinds[0].attention.rotary_dims, 10);
      a.kinds[0].attention.rotary_frequencies.back() = std::numbers::pi;
      break;
    default:
      for (std::int64_t b = 0; b < pairs; ++b) {
        a.kinds[0].attention.rotary_frequencies.push_back(0.3 + 0.45 * static_cast<double>(b));
      }
  }
}

void draw_input(Draw& draw, Architecture& a) {
  a.input = draw.yes(0.75) ? Input::tokens : Input::vectors;
  if (a.input == Input::tokens) {
    a.vocabulary = draw.between(10, 30);
    if (draw.yes(0.3)) a.token_types = draw.between(1, 3);
    if (draw.yes(0.2)) a.embedding_scale = 2.5;
  } else {
    a.input_width = draw.between(a.width, a.width + 3);
    a.input_bias = draw.yes();
    a.class_token = draw.yes();
  }
}

void draw_positions(Draw& draw, Architecture& a) {
  using Both = std::pair<PositionTable, Positions>;
  const auto none = PositionTable::none;
  std::tie(a.position_table, a.kinds[0].attention.positions) =
      draw.one_of<Both>({{none, Positions::none},
                         {PositionTable::sinusoidal, Positions::none},
                         {PositionTable::learned, Positions::none},
                         {none, Positions::rotary},
                         {none, Positions::rotary},
                         {none, Positions::alibi},
                         {none, Positions::relative}});
  a.max_positions = draw.between(3, 8);
  if (a.kinds[0].attention.positions == Positions::rotary) {
    if (a.kinds[0].attention.qk_width < 2) a.kinds[0].attention.qk_width = 2;
    draw_rotary(draw, a);
  }
  if (a.kinds[0].attention.positions == Positions::relative) {
    a.kinds[0].attention.relative_buckets = draw.one_of<std::int64_t>({4, 6, 8});
    a.kinds[0].attention.relative_max_distance = draw.between(12, 16);
  }
}

void draw_output(Draw& draw, Architecture& a) {
  const bool tokens = a.input == Input::tokens;
  a.output = tokens && draw.yes(0.7) ? Output::tokens
             : draw.yes(0.7)         ? Output::classes
                                     : Output::hidden;
  if (a.output == Output::hidden) return;
  a.head_bias = draw.yes();
  a.log_probabilities = draw.yes(0.4);
  if (a.output == Output::classes) {
    a.classes = draw.between(3, 9);
    return;
  }
  a.tied = draw.yes();
  a.head_transform = a.kinds[0].placement == Placement::post && draw.yes();
}

}  // namespace

std::vector<Architecture> full_turn_architectures(std::size_t count) {
  std::vector<Architecture> all;
  for (std::uint64_t seed = 0; all.size() < count; ++seed) {
    Architecture a = random_architecture(seed);
    if (a.kinds[0].attention.positions != Positions::rotary) continue;
    a.kinds[0].attention.rotary_frequencies.back() = 2 * std::numbers::pi;
    if (seed % 3 == 0) a.kinds[0].attention.rotary_frequencies.front() = 4 * std::numbers::pi;
    if (seed % 2 == 0) a.kinds[0].attention.biases.k = true;
    all.push_back(std::move(a));
  }
  return all;
}

Architecture random_architecture(std::uint64_t seed) {
  Draw draw(seed);
  Architecture a;
  a.width = draw.between(4, 7);
  a.layers = draw.one_of<std::int64_t>({1, 1, 2, 2, 3});
  a.kinds[0].attention.kv_heads = draw.between(1, 2);
  a.kinds[0].attention.heads = a.kinds[0].attention.kv_heads * draw.between(1, 2);
  a.kinds[0].attention.qk_norm = draw.yes(0.25) ? QkNorm::heads : QkNorm::none;
  a.kinds[0].attention.qk_width = draw.between(a.kinds[0].attention.has_qk_norm() ? 2 : 1,
                                               std::min<std::int64_t>(5, a.width - 1));
  a.kinds[0].attention.v_width = draw.between(1, std::min<std::int64_t>(5, a.width - 1));
  a.kinds[0].ffn.width = draw.between(3, 8);
  a.kinds[0].attention.scale = 1 / std::sqrt(static_cast<double>(a.kinds[0].attention.qk_width));
  draw_input(draw, a);
  a.embedding_norm = draw.yes(0.35);
  draw_positions(draw, a);
  a.norm = draw.one_of({Norm::rms, Norm::layer});
  a.norm_bias = a.norm == Norm::layer && draw.yes(0.7);
  a.norm_eps = draw.yes(0.3) ? 0.01 : 0;
  a.kinds[0].placement = draw.yes(0.35) ? Placement::post : Placement::pre;
  a.causal = draw.yes();
  a.kinds[0].parallel = a.kinds[0].placement == Placement::pre && draw.yes(0.25);
  const bool relative = a.kinds[0].attention.positions == Positions::relative;
  a.kinds[0].attention.window = draw.yes(0.1) && a.causal && !relative ? 64 : 0;
  a.kinds[0].ffn.activation =
      draw.one_of({Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu});
  a.kinds[0].ffn.gated = draw.yes();
  if (draw.yes(0.75)) {
    Layer& layer = a.kinds[0];
    layer.attention.biases = {.q = draw.yes(), .k = draw.yes(), .v = draw.yes(), .o = draw.yes()};
    layer.ffn.biases = {
        .gate = layer.ffn.gated && draw.yes(), .up = draw.yes(), .down = draw.yes()};
  }
  draw_output(draw, a);
  const bool one_table = a.input == Input::tokens && a.token_types < 2 && !a.has_position_table();
  if (a.embedding_norm && one_table) a.vocabulary += kManyTokens;
  validate(a);
  return a;
}

Architecture mixed_architecture(std::uint64_t seed) {
  Architecture a = random_architecture(seed);
  Layer other = random_architecture(seed + 10000).kinds[0];
  other.placement = a.kinds[0].placement;
  other.parallel = a.kinds[0].parallel;
  Attention& attention = other.attention;
  if (a.has_position_table()) {
    attention.positions = Positions::none;
    attention.rotary_dims = attention.relative_buckets = attention.relative_max_distance = 0;
    attention.rotary_frequencies.clear();
  }
  attention.qk_width = std::min(attention.qk_width, a.width - 1);
  attention.v_width = std::min(attention.v_width, a.width - 1);
  if (!a.causal) attention.window = 0;
  if (attention.positions == Positions::rotary) {
    attention.rotary_dims = std::min(attention.rotary_dims, attention.qk_width / 2 * 2);
    attention.rotary_frequencies.resize(static_cast<std::size_t>(attention.rotary_dims / 2));
  }
  const Layer first = a.kinds[0];
  a.set_layers(seed % 2 == 0 ? std::vector{first, other} : std::vector{other, first, other});
  validate(a);
  return a;
}

Architecture experts_architecture(std::uint64_t seed) {
  Architecture a = seed % 3 == 0 ? output_norm_architecture(seed) : random_architecture(seed);
  Draw draw(seed + 30000);
  for (auto& layer : a.kinds) {
    if (!layer.norms_input()) layer.placement = Placement::pre;
    FeedForward& ffn = layer.ffn;
    ffn.biases = {};
    ffn.experts.count = draw.between(2, 4);
    ffn.experts.active = draw.between(1, ffn.experts.count);
    ffn.experts.renormalised = ffn.experts.active > 1 && draw.yes();
    if (draw.yes(0.4)) {
      ffn.experts.shared_width = draw.between(2, 4);
      ffn.experts.shared_gate = draw.yes();
    }
  }
  a.head_transform = false;
  if (a.input == Input::tokens) a.vocabulary += kManyTokens;
  validate(a);
  return a;
}

Architecture outputs_architecture(std::uint64_t seed) {
  Architecture a = seed % 3 == 0 ? output_norm_architecture(seed) : random_architecture(seed);
  Draw draw(seed + 40000);
  const bool had_head = a.has_head();
  const bool classes = draw.yes(0.6);
  a.pooler = draw.yes(0.7);
  if (a.pooler) {
    a.pooler_activation =
        draw.one_of({Activation::tanh, Activation::tanh, Activation::gelu, Activation::relu});
  }
  if (classes) a.output.add(Output::classes);
  if (a.output.has(Output::classes)) {
    if (a.classes == 0) a.classes = draw.between(2, 5);
    a.classes_everywhere = draw.yes(0.4);
    a.classes_pooled = a.pooler && draw.yes();
    if (!had_head) a.head_bias = draw.yes();
    if (!had_head) a.log_probabilities = draw.yes(0.4);
  }
  if (draw.yes(0.25)) a.output.add(Output::hidden);
  if (a.pooler && (!a.classes_pooled || draw.yes(0.4))) a.output.add(Output::pooled);
  validate(a);
  return a;
}

Architecture encoder_decoder(std::uint64_t seed) {
  Architecture a = random_architecture(seed);
  Draw draw(seed + 40000);
  a.input = Input::tokens;
  a.vocabulary = draw.between(20, 30);
  a.input_width = a.token_types = a.classes = 0;
  a.input_bias = a.class_token = a.embedding_norm = a.norm_bias = a.head_transform = false;
  a.position_table = PositionTable::none;
  a.norm = Norm::rms;
  a.output = Output::tokens;
  a.causal = true;
  a.tied = draw.yes();
  const auto prepared = [&](Layer layer) {
    layer.placement = Placement::pre;
    layer.parallel = false;
    Attention& attention = layer.attention;
    attention.window = 0;
    attention.qk_width = std::min(attention.qk_width, a.width - 1);
    attention.v_width = std::min(attention.v_width, a.width - 1);
    const bool rotary = attention.positions == Positions::rotary;
    attention.rotary_dims =
        rotary ? std::min(attention.rotary_dims, attention.qk_width / 2 * 2) : 0;
    attention.rotary_frequencies.resize(static_cast<std::size_t>(attention.rotary_dims / 2));
    if (!draw.yes(0.7)) return layer;
    attention.positions = Positions::relative;
    attention.rotary_dims = 0;
    attention.rotary_frequencies.clear();
    attention.relative_buckets = draw.one_of<std::int64_t>({4, 6, 8});
    attention.relative_max_distance = draw.between(12, 16);
    return layer;
  };
  const Layer encoder = prepared(a.kinds[0]);
  Layer decoder = prepared(random_architecture(seed + 50000).kinds[0]);
  Layer cross = prepared(random_architecture(seed + 60000).kinds[0]);
  cross.attention.cross = true;
  cross.attention.positions = Positions::none;
  cross.attention.rotary_dims = 0;
  cross.attention.rotary_frequencies.clear();
  cross.attention.relative_buckets = cross.attention.relative_max_distance = 0;
  if (draw.yes(0.7)) decoder.ffn = {};
  const auto again = [&](Layer layer) {
    const Attention& of = layer.attention;
    layer.attention.shares_table =
        of.positions == Positions::relative && !of.has_qk_norm() && draw.yes(0.8);
    return layer;
  };
  std::vector<Layer> layers = {encoder};
  if (draw.yes()) layers.push_back(again(encoder));
  a.encoder_layers = static_cast<std::int64_t>(layers.size());
  layers.push_back(decoder);
  layers.push_back(cross);
  if (draw.yes()) {
    layers.push_back(again(decoder));
    layers.push_back(cross);
  }
  a.set_layers(layers);
  validate(a);
  return a;
}

Architecture t5_architecture(const T5Sizes& sizes, bool gated, bool tied, bool alone) {
  Architecture a;
  a.width = sizes.width;
  a.vocabulary = sizes.vocabulary;
  a.tied = tied;
  a.encoder_layers = sizes.encoder;
  Layer encoder;
  Attention& attention = encoder.attention;
  attention.heads = attention.kv_heads = 2;
  attention.qk_width = attention.v_width = sizes.head;
  attention.scale = 1;
  Layer cross = encoder;
  attention.positions = Positions::relative;
  attention.relative_buckets = attention.relative_max_distance = 4;
  encoder.ffn.width = sizes.ffn;
  encoder.ffn.activation = gated ? Activation::gelu_tanh : Activation::relu;
  encoder.ffn.gated = gated;
  cross.ffn = encoder.ffn;
  cross.attention.cross = true;
  Layer decoder = encoder;
  decoder.ffn = {};
  std::vector<Layer> layers;
  for (std::int64_t n = 0; n < sizes.encoder; ++n) {
    layers.push_back(encoder);
    layers.back().attention.shares_table = n > 0 && !alone;
  }
  for (std::int64_t n = 0; n < sizes.decoder; ++n) {
    layers.push_back(decoder);
    layers.back().attention.shares_table = n > 0 && !alone;
    layers.push_back(cross);
  }
  a.set_layers(layers);
  validate(a);
  return a;
}

Architecture router_architecture(std::uint64_t seed) {
  Architecture a = experts_architecture(seed);
  Draw draw(seed + 40000);
  for (auto& layer : a.kinds) {
    Experts& e = layer.ffn.experts;
    if (draw.yes(0.75)) e.scoring = Scoring::sigmoid;
    if (draw.yes()) e.weight_scale = 1.7;
    if (draw.yes()) {
      e.groups = draw.between(2, 3);
      e.count = e.groups * 2;
      e.active_groups = draw.between(1, e.groups - 1);
      e.group_leaders = draw.between(1, 2);
    }
    e.selection_bias = draw.yes(0.6);
    const std::int64_t open = e.active_groups * e.count / e.groups;
    e.active = draw.between(1, open - (e.selection_bias ? 1 : 0));
    e.renormalised = e.active > 1 && draw.yes();
  }
  validate(a);
  return a;
}

Architecture latents_architecture(std::uint64_t seed) {
  Architecture a = seed % 3 == 0 ? router_architecture(seed) : random_architecture(seed);
  Draw draw(seed + 50000);
  a.norm = Norm::rms;
  a.norm_bias = a.head_transform = false;
  a.position_table = PositionTable::none;
  // Many tokens, or their normed rows lie on more than one quadric.
  if (a.input == Input::tokens) a.vocabulary += kManyTokens;
  Layer& layer = a.kinds[0];
  layer.placement = Placement::pre;
  Attention& attention = layer.attention;
  attention.biases = {};
  attention.qk_norm = QkNorm::none;
  attention.softcap = 0;
  attention.positions = Positions::rotary;
  attention.relative_buckets = attention.relative_max_distance = 0;
  attention.heads = attention.kv_heads = draw.between(1, 3);
  attention.rotary_dims = 2 * draw.between(1, 2);
  attention.rotary_frequencies = {0.9, 0.3};
  attention.rotary_frequencies.resize(static_cast<std::size_t>(attention.rotary_dims / 2));
  // A latent narrower than a head, or than what reads it, leaves more.
  attention.v_width = draw.between(1, 3);
  const std::int64_t plain = draw.between(1, 3);
  attention.qk_width = plain + attention.rotary_dims;
  const std::int64_t least = std::max(plain, attention.v_width);
  const std::int64_t most = std::min(attention.heads * (plain + attention.v_width), a.width - 1);
  attention.kv_latent = draw.between(least, std::max(least, most));
  if (draw.yes()) {
    const std::int64_t reads = attention.heads * attention.qk_width;
    const std::int64_t own = std::max(plain, attention.rotary_dims);
    attention.q_latent = draw.between(own, std::max(own, std::min(reads, a.width - 1)));
  }
  validate(a);
  return a;
}

Architecture sinks_architecture(std::uint64_t seed) {
  Architecture a = random_architecture(seed);
  Draw draw(seed + 40000);
  for (auto& layer : a.kinds) {
    Attention& attention = layer.attention;
    const bool plain = !attention.has_qk_norm() && (attention.positions == Positions::none ||
                                                    attention.positions == Positions::rotary);
    attention.sinks = plain && !layer.norms_sum() && draw.yes(0.8);
    FeedForward& ffn = layer.ffn;
    if (ffn.gated && draw.yes(0.7)) {
      ffn.limit = 0.5;
      ffn.up_offset = draw.yes() ? 1 : 0;
    }
    if (layer.placement != Placement::pre || layer.parallel || a.norm != Norm::rms) continue;
    ffn.experts = {.count = draw.between(2, 4), .active = 2};
    ffn.experts.renormalised = draw.yes();
    ffn.experts.router_bias = draw.yes();
    ffn.biases = {.gate = ffn.gated && draw.yes(), .up = draw.yes(), .down = draw.yes(0.8)};
  }
  a.head_transform = false;
  if (a.input == Input::tokens) a.vocabulary += kManyTokens;
  validate(a);
  return a;
}

Architecture constants_architecture(std::uint64_t seed) {
  Architecture a = seed % 3 == 0 ? output_norm_architecture(seed) : random_architecture(seed);
  Draw draw(seed + 20000);
  Layer& layer = a.kinds[0];
  if (draw.yes()) layer.attention.softcap = 1.5;
  if (layer.placement != Placement::post && draw.yes()) layer.branch_scale = 0.7;
  if (a.has_head() && draw.yes()) a.logit_scale = 1.3;
  if (a.has_head() && draw.yes()) a.logit_softcap = 2;
  if (layer.placement == Placement::pre && draw.yes()) {
    layer.parallel = true;
    layer.shared_norm = draw.yes(0.8);
  }
  if (draw.yes()) {
    // More coordinates than the stream has leave more: parts of them that no input reaches.
    Attention& attention = layer.attention;
    attention.qk_norm = QkNorm::joint;
    attention.heads = attention.qk_width = 2;
    attention.v_width = (a.width + 1) / 2;
    attention.rotary_dims = attention.positions == Positions::rotary ? 2 : 0;
    attention.rotary_frequencies.resize(static_cast<std::size_t>(attention.rotary_dims / 2));
  }
  validate(a);
  return a;
}

Architecture output_norm_architecture(std::uint64_t seed) {
  Architecture a = random_architecture(seed);
  a.norm = Norm::rms;
  a.norm_bias = a.embedding_norm = a.head_transform = false;
  Layer& layer = a.kinds[0];
  // Narrower branches leave more: parts of the stream that nothing normed is written to.
  layer.ffn.width = std::max(layer.ffn.width, a.width);
  while (layer.attention.heads * layer.attention.v_width < a.width) {
    layer.attention.heads += layer.attention.kv_heads;
  }
  layer.parallel = false;
  layer.placement = seed % 2 == 0 ? Placement::both : Placement::behind;
  if (layer.placement == Placement::behind) {
    layer.attention.biases.q = layer.attention.biases.k = layer.attention.biases.v = false;
    layer.ffn.biases.gate = layer.ffn.biases.up = false;
  }
  validate(a);
  return a;
}

}  // namespace regauge
