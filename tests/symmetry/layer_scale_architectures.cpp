#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

// Of images, with registers behind the class token.
void make_vision(Architecture& a, Random& random) {
  a.input = Input::vectors;
  a.input_width = a.width + random.below(3);
  a.vocabulary = a.token_types = 0;
  a.embedding_scale = 1;
  a.tied = a.embedding_norm = false;
  a.class_token = true;
  a.registers = 1 + random.below(3);
  a.input_bias = random.coin();
  a.position_table = random.coin() ? PositionTable::learned : PositionTable::none;
  if (a.output.has(Output::tokens)) a.output = Output::classes;
  if (a.output.has(Output::classes) && a.classes == 0) a.classes = 4;
  for (auto& layer : a.kinds) {
    Attention& attention = layer.attention;
    attention.positions = Positions::none;
    attention.rotary_dims = attention.relative_buckets = attention.relative_max_distance = 0;
    attention.rotary_frequencies.clear();
    attention.window = 0;
  }
}

}  // namespace

Architecture layer_scale_architecture(std::uint64_t seed) {
  Architecture a = seed % 4 == 0 ? mixed_architecture(seed) : random_architecture(seed);
  Random random(seed, "layer scales");
  a.head_transform = false;
  for (auto& layer : a.kinds) {
    layer.placement = Placement::pre;
    layer.parallel = false;
    layer.layer_scale = &layer == a.kinds.data() || random.coin();
    if (random.coin()) layer.branch_scale = 0.7;
  }
  if (random.coin()) make_vision(a, random);
  validate(a);
  return a;
}

Architecture dinov2_architecture(std::int64_t layers, std::int64_t registers, bool gated) {
  Architecture a;
  a.width = 6;
  a.layers = layers;
  a.input = Input::vectors;
  a.input_width = 4;
  a.input_bias = a.class_token = a.norm_bias = true;
  a.registers = registers;
  a.position_table = PositionTable::learned;
  a.max_positions = 5;
  a.causal = false;
  a.norm = Norm::layer;
  a.output = Output::classes;
  a.classes = 7;
  a.classes_everywhere = a.head_bias = true;
  Layer& layer = a.kinds[0];
  layer.layer_scale = true;
  Attention& attention = layer.attention;
  attention.heads = attention.kv_heads = 2;
  attention.qk_width = attention.v_width = 3;
  attention.scale = 0.7;
  attention.biases = {.q = true, .k = true, .v = true, .o = true};
  layer.ffn.width = gated ? 8 : 6;
  layer.ffn.gated = gated;
  layer.ffn.activation = gated ? Activation::silu : Activation::gelu;
  layer.ffn.biases = {.gate = gated, .up = true, .down = true};
  validate(a);
  return a;
}

}  // namespace regauge
