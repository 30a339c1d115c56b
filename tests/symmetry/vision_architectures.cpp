#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

void no_positions(Attention& attention) {
  attention.positions = Positions::none;
  attention.rotary_dims = attention.relative_buckets = attention.relative_max_distance = 0;
  attention.rotary_frequencies.clear();
  attention.window = 0;
  attention.qk_norm = QkNorm::none;
}

void turn_by_places(Attention& attention) {
  attention.positions = Positions::rotary;
  attention.grid = true;
  attention.qk_width = attention.rotary_dims = 4;
  attention.rotary_frequencies = {6.283, 6.283};
}

// Of pictures of 3 x 3 patches where places count.
void look_up_places(Attention& attention) {
  attention.positions = Positions::relative;
  attention.grid = true;
  attention.relative_buckets = 5 * 5 + 3;
}

}  // namespace

Architecture vision_architecture(std::uint64_t seed) {
  Architecture a = random_architecture(seed);
  Random random(seed, "vision");
  a.head_transform = a.tied = a.embedding_norm = a.causal = false;
  a.input = Input::vectors;
  a.input_width = a.width + random.below(3);
  a.input_bias = random.coin();
  a.vocabulary = a.token_types = 0;
  a.embedding_scale = 1;
  a.position_table = PositionTable::none;
  a.max_positions = 0;
  a.class_token = true;
  if (a.output.has(Output::tokens)) a.output = Output::classes;
  if (a.output.has(Output::classes) && a.classes == 0) a.classes = 4;
  Layer& layer = a.kinds[0];
  layer.placement = Placement::pre;
  layer.parallel = false;
  layer.layer_scale = random.coin();
  no_positions(layer.attention);
  switch (seed % 4) {
    case 0:  // DINOv3
      turn_by_places(layer.attention);
      a.registers = random.below(3);
      break;
    case 1: {  // BEiT
      look_up_places(layer.attention);
      a.max_positions = 10;
      if (random.coin()) a.position_table = PositionTable::learned;
      Layer others = layer;
      others.attention.shares_table = random.coin();
      std::vector<Layer> layers(static_cast<std::size_t>(a.layers), others);
      layers.front() = layer;
      a.set_layers(layers);
      break;
    }
    case 2:  // DeiT
      a.position_table = PositionTable::learned;
      a.max_positions = 3 + random.below(4);
      a.distillation_token = true;
      a.distillation_head = a.output == Output::classes && random.coin();
      if (a.distillation_head) a.log_probabilities = false;
      break;
    default:
      break;
  }
  if (a.output == Output::classes && !a.distillation_head && random.coin()) {
    a.mean_position = true;
    a.mean_norm = random.coin();
  }
  validate(a);
  return a;
}

Architecture dinov3_architecture(bool wide) {
  Architecture a = dinov2_architecture(wide ? 1 : 2, 1, false);
  a.width = wide ? 12 : 8;
  a.input_width = wide ? 16 : 12;
  a.position_table = PositionTable::none;
  a.max_positions = 0;
  a.classes = wide ? 6 : 7;
  Layer& layer = a.kinds[0];
  layer.attention.heads = layer.attention.kv_heads = wide ? 3 : 2;
  layer.attention.v_width = 4;
  turn_by_places(layer.attention);
  layer.attention.biases.k = false;
  layer.ffn.width = wide ? 4 : 5;
  validate(a);
  return a;
}

Architecture beit_architecture(std::int64_t layers, bool shared, bool mean) {
  Architecture a = dinov2_architecture(layers, 0, false);
  a.position_table = PositionTable::none;
  a.max_positions = 5;
  a.input_width = 9;
  a.classes_everywhere = false;
  a.mean_position = a.mean_norm = mean;
  Layer first = a.kinds[0];
  first.attention.positions = Positions::relative;
  first.attention.grid = true;
  first.attention.relative_buckets = 3 * 3 + 3;
  first.attention.biases.k = false;
  Layer others = first;
  others.attention.shares_table = shared;
  std::vector<Layer> all(static_cast<std::size_t>(layers), others);
  all.front() = first;
  a.set_layers(all);
  validate(a);
  return a;
}

Architecture deit_architecture(bool two_heads) {
  Architecture a = dinov2_architecture(2, 0, false);
  a.max_positions = 6;
  a.kinds[0].layer_scale = a.classes_everywhere = false;
  a.distillation_token = true;
  a.distillation_head = two_heads;
  if (!two_heads) {
    a.output = Output::hidden;
    a.output.add(Output::pooled);
    a.classes = 0;
    a.head_bias = false;
    a.pooler = true;
  }
  validate(a);
  return a;
}

Architecture protein_architecture(std::uint64_t seed) {
  Architecture a = encoder_architecture(2 * seed + 1);
  Random random(seed, "protein");
  a.causal = a.embedding_norm = a.log_probabilities = false;
  a.token_types = 0;
  a.position_table = PositionTable::none;
  a.max_positions = 0;
  Layer& layer = a.kinds[0];
  layer.parallel = false;
  if (layer.attention.positions == Positions::relative) no_positions(layer.attention);
  layer.attention.contacts = random.coin();
  if (random.uniform() < 0.7) {
    a.dropped_token = 5;
    a.norm_eps = 0.01;
  }
  validate(a);
  return a;
}

Architecture esm_architecture(bool tied, bool contacts) {
  Architecture a = modernbert_architecture(30, 2, true);
  a.embedding_norm = a.bare_first_attention = false;
  a.norm_bias = true;
  a.tied = tied;
  a.transform_bias = true;
  a.dropped_token = 7;
  a.norm_eps = 0.01;
  a.embedding_scale = 0.88;
  Layer& layer = a.kinds[0];
  layer.attention.biases = {.q = true, .k = true, .v = true, .o = true};
  layer.attention.contacts = contacts;
  layer.ffn.gated = false;
  layer.ffn.biases = {.up = true, .down = true};
  a.set_layers({layer, layer});
  validate(a);
  return a;
}

}  // namespace regauge
