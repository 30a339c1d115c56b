#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {

Architecture albert_architecture(std::int64_t width, std::int64_t passes) {
  Architecture a = known_architecture("bert");
  a.width = width;
  a.layers = 1;
  a.passes = passes;
  a.embedding_width = width / 2 + 1;
  a.vocabulary = 24;
  a.max_positions = 5;
  a.token_types = 2;
  a.embedding_norm = true;
  a.tied = true;
  a.head_transform = a.head_bias = true;
  Layer& layer = a.kinds[0];
  layer.attention.heads = layer.attention.kv_heads = 2;
  layer.attention.qk_width = layer.attention.v_width = width / 2;
  validate(a);
  return a;
}

Architecture repeated_architecture(std::uint64_t seed) {
  Random random(seed, "repeated");
  Architecture a = albert_architecture(4 + 2 * random.below(2), 2 + random.below(2));
  a.layers = 1 + random.below(2);
  if (a.layers == 2) a.passes = 2;  // of deeper ones what is small looks like nothing
  a.embedding_width = 4 + random.below(a.width - 3);
  a.token_types = random.below(3);
  a.norm_eps = random.uniform() < 0.5 ? 0 : 0.01;
  Layer& layer = a.kinds[0];
  layer.ffn.width = 3 + random.below(4);
  layer.ffn.gated = random.uniform() < 0.3;
  layer.ffn.biases.up = random.uniform() < 0.7;
  layer.attention.qk_width = 2 + random.below(2);
  layer.attention.v_width = 2 + random.below(2);
  switch (random.below(5)) {
    case 0:  // tied
      break;
    case 1:
      a.tied = false;
      break;
    case 2:
      a.tied = a.head_transform = false;
      break;
    case 3:
      a.tied = a.head_transform = false;
      a.output = Output::classes;
      a.classes = 7;
      a.classes_everywhere = true;
      break;
    default:
      a.tied = a.head_transform = a.head_bias = false;
      a.output = Output::hidden;
      a.output.add(Output::pooled);
      a.pooler = true;
  }
  // A transform of ReLUs may write 0, which no norm can divide.
  if (!a.head_transform && a.layers == 1 && random.uniform() < 0.4)
    layer.ffn.activation = Activation::relu;
  if (a.has_head() && random.uniform() < 0.3) a.log_probabilities = true;
  validate(a);
  return a;
}

}  // namespace regauge
