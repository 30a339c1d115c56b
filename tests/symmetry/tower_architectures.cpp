#include "architectures.h"

namespace regauge {
namespace {

Architecture tower(std::int64_t width, std::int64_t heads, std::int64_t layers) {
  Architecture a;
  a.width = width;
  a.layers = layers;
  a.position_table = PositionTable::learned;
  a.max_positions = 5;
  a.norm = Norm::layer;
  a.norm_bias = true;
  Layer& layer = a.kinds[0];
  Attention& attention = layer.attention;
  attention.heads = attention.kv_heads = heads;
  attention.qk_width = attention.v_width = width / heads;
  attention.scale = 0.7;
  attention.biases = {.q = true, .k = true, .v = true, .o = true};
  layer.ffn.width = width + 1;
  layer.ffn.activation = Activation::gelu_quick;
  layer.ffn.biases = {.gate = false, .up = true, .down = true};
  a.output = Output::classes;
  a.classes = 4;
  return a;
}

}  // namespace

Architecture text_tower(bool siglip) {
  Architecture a = tower(6, 2, 2);
  a.vocabulary = 18;
  a.causal = !siglip;
  a.last_position = siglip;
  a.head_bias = siglip;
  validate(a);
  return a;
}

Architecture vision_tower(bool siglip) {
  Architecture a = tower(8, 2, 2);
  a.input = Input::vectors;
  a.input_width = 9;
  a.causal = false;
  if (siglip) {
    a.output = Output::hidden;
    a.classes = 0;
    a.input_bias = true;
  } else {
    a.class_token = a.embedding_norm = true;
  }
  validate(a);
  return a;
}

Architecture two_towers(bool siglip) {
  Architecture a = text_tower(siglip);
  a.beside = {vision_tower(siglip)};
  validate(a);
  return a;
}

}  // namespace regauge
