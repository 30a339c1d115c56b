#include <algorithm>

#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {

Architecture value_norm_architecture(std::uint64_t seed) {
  Architecture a = output_norm_architecture(seed);
  Random random(seed, "norms of values");
  std::vector<Layer> layers;
  for (std::int64_t n = 0; n < a.layers; ++n) {
    Layer& layer = layers.emplace_back(a.layer(n));
    layer.stream_scale = random.below(3) > 0;
    Attention& attention = layer.attention;
    // A head wider than the stream, or of a single coordinate, leaves more.
    attention.value_norm = random.below(4) > 0;
    attention.v_width = std::max<std::int64_t>(2, attention.v_width);
    if (attention.value_norm) attention.biases.v = false;
    if (attention.value_norm && attention.qk_norm == QkNorm::heads && random.below(3) > 0) {
      attention.keys_as_values = true;
      attention.v_width = attention.qk_width;
      attention.biases.k = false;
    }
    while (attention.heads * attention.v_width < a.width) attention.heads += attention.kv_heads;
    if (attention.positions == Positions::rotary && random.below(2) == 0) {
      attention.rotary_frequencies.back() = 0;
    }
  }
  a.set_layers(layers);
  validate(a);
  return a;
}

Architecture gemma4_architecture() {
  Architecture a = known_architecture("llama, tied");
  a.width = 8;
  a.vocabulary = 30;
  Layer layer = a.kinds[0];
  layer.placement = Placement::both;
  layer.stream_scale = true;
  layer.ffn.width = 9;
  Attention& attention = layer.attention;
  attention.kv_heads = 1;
  attention.qk_norm = QkNorm::heads;
  attention.value_norm = true;
  Layer keys = layer;
  keys.attention.keys_as_values = true;
  keys.attention.rotary_frequencies.back() = 0;
  a.set_layers({layer, keys});
  validate(a);
  return a;
}

}  // namespace regauge
