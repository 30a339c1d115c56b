#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {

void set_delta_net(Layer& layer, const DeltaNet& delta) {
  layer.attention = Attention{};
  layer.delta = delta;
}

Architecture delta_architecture(std::uint64_t seed) {
  Architecture a = seed % 3 == 0   ? mixed_architecture(seed)
                   : seed % 3 == 1 ? experts_architecture(seed)
                                   : random_architecture(seed);
  Random random(seed, "delta nets");
  a.norm = Norm::rms;
  a.norm_bias = a.head_transform = a.embedding_norm = false;
  a.causal = true;
  std::vector<Layer> layers;
  for (std::int64_t n = 0; n < a.layers; ++n) {
    Layer& layer = layers.emplace_back(a.layer(n));
    layer.placement = Placement::pre;
    layer.parallel = layer.shared_norm = false;
    if (random.below(3) > 0) {
      const std::int64_t keys = 1 + random.below(2);
      set_delta_net(layer, {.key_heads = keys,
                            .value_heads = keys * (1 + random.below(2)),
                            .key_width = 2 + random.below(2),
                            .value_width = 2 + random.below(2),
                            .kernel = 2 + random.below(2)});
    } else {
      layer.attention.gate = true;
    }
  }
  a.set_layers(layers);
  validate(a);
  return a;
}

Architecture qwen3_next_architecture(std::int64_t width, std::int64_t layers, bool delta) {
  Architecture a;
  a.width = width;
  a.vocabulary = 16;
  Layer layer;
  layer.ffn.width = 5;
  layer.ffn.activation = Activation::silu;
  layer.ffn.gated = true;
  Layer mixer = layer;
  set_delta_net(mixer,
                {.key_heads = 1, .value_heads = 2, .key_width = 3, .value_width = 2, .kernel = 3});
  Attention& attention = layer.attention;
  attention.heads = 2;
  attention.kv_heads = 1;
  attention.qk_width = attention.v_width = 4;
  attention.scale = 0.5;
  attention.positions = Positions::rotary;
  attention.rotary_dims = 2;
  attention.rotary_frequencies = rotary_frequencies(2, 10000);
  attention.qk_norm = QkNorm::heads;
  attention.gate = true;
  std::vector<Layer> all(static_cast<std::size_t>(layers), layer);
  if (delta) all.front() = mixer;
  a.set_layers(all);
  validate(a);
  return a;
}

}  // namespace regauge
