#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {

Architecture vectors_architecture(std::uint64_t seed) {
  Architecture a = seed % 4 == 0   ? mixed_architecture(seed)
                   : seed % 4 == 1 ? output_norm_architecture(seed)
                                   : random_architecture(seed);
  Random random(seed, "vectors among tokens");
  if (a.input == Input::vectors) {
    a.input = Input::tokens;
    a.vocabulary = 10 + random.below(20);
    a.class_token = false;
  }
  a.input_width = a.width + random.below(3);
  a.input_bias = random.coin();
  a.position_table = PositionTable::none;
  a.token_types = 0;
  a.embedding_norm = a.head_transform = false;
  for (auto& layer : a.kinds) {
    if (!layer.norms_input()) layer.placement = Placement::pre;
  }
  if (a.norm == Norm::rms && random.coin()) a.deep_inputs = 1 + random.below(a.layers);
  validate(a);
  return a;
}

}  // namespace regauge
