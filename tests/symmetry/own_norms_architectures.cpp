#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {

Architecture own_norms_architecture(std::uint64_t seed) {
  Architecture a = value_norm_architecture(2 * seed);  // norms in front of the branches, too
  Random random(seed, "norms of experts");
  std::vector<Layer> layers;
  for (std::int64_t n = 0; n < a.layers; ++n) {
    Layer& layer = layers.emplace_back(a.layer(n));
    if (n > 0 && random.below(4) == 0) continue;
    FeedForward& ffn = layer.ffn;
    Experts& experts = ffn.experts;
    ffn.biases = {};
    experts.count = 2 + random.below(3);
    experts.active = 2 + random.below(experts.count - 1);
    experts.renormalised = random.coin();
    if (random.below(4) == 0) experts.scoring = Scoring::sigmoid;
    if (random.coin()) experts.router_scale = 0.5;
    experts.own_norms = random.below(3) > 0;
    experts.scales = !experts.own_norms || random.below(3) > 0;
    if (experts.own_norms || random.coin()) experts.shared_width = 3 + random.below(4);
  }
  a.set_layers(layers);
  a.head_transform = false;
  if (a.input == Input::tokens) a.vocabulary += 20;
  validate(a);
  return a;
}

Architecture gemma4_experts_architecture() {
  Architecture a = gemma4_architecture();
  for (Layer& kind : a.kinds) {
    kind.ffn.width = 4;
    kind.ffn.experts = {.count = 3,
                        .active = 2,
                        .renormalised = true,
                        .shared_width = 5,
                        .own_norms = true,
                        .scales = true,
                        .router_scale = 0.5};
  }
  validate(a);
  return a;
}

}  // namespace regauge
