#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {

Architecture vectors_architecture(std::uint64_t seed) {
  Architecture a = seed % 4 == 0   ? mixed_architecture(seed)
                   : seed % 4 == 1 ? output_norm_architecture(seed)
                                   : random_architecture(seed);
  Random random(seed, "vectors among tokens");
  if (!a.takes_tokens()) {
    a.input = Input::tokens;
    a.vocabulary = 10 + random.below(20);
    a.class_token = false;
  }
  a.input_width = a.width + random.below(3);
  a.input_bias = random.coin();
  a.position_table = PositionTable::none;
  a.token_types = 0;
  a.embedding_norm = a.head_transform = false;
  std::vector<Layer> layers;
  const bool deep = random.coin();
  for (std::int64_t n = 0; n < a.layers; ++n) {
    Layer layer = a.layer(n);
    if (!layer.norms_input()) layer.placement = Placement::pre;
    layer.deep_input = deep && n < 2;
    layers.push_back(layer);
  }
  a.set_layers(layers);
  validate(a);
  return a;
}

}  // namespace regauge
