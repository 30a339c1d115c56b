#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

// As MPNet: rows of a position table, and a table of distances that the first layer shares.
void add_both_tables(Architecture& a, Random& random) {
  a.position_table = PositionTable::learned;
  Layer& first = a.kinds[0];
  Attention& attention = first.attention;
  attention.positions = Positions::relative;
  attention.rotary_dims = attention.window = 0;
  attention.rotary_frequencies.clear();
  attention.relative_buckets = 4 + 2 * random.below(3);
  attention.relative_max_distance = 6 + random.below(10);
  Layer others = first;
  others.attention.shares_table = !attention.has_qk_norm() && random.uniform() < 0.7;
  std::vector<Layer> layers(static_cast<std::size_t>(a.layers), others);
  layers.front() = first;
  a.set_layers(layers);
}

// As ESM: a transform in front of the head behind a final norm.
void add_transform(Architecture& a) {
  if (!a.output.has(Output::tokens)) {
    a.input = Input::tokens;
    a.vocabulary = 60;
    a.input_width = a.classes = 0;
    a.input_bias = a.class_token = a.classes_everywhere = a.classes_pooled = a.pooler = false;
    a.pooler_activation = Activation::tanh;
    a.output = Output::tokens;
  }
  a.kinds[0].placement = Placement::pre;
  a.head_transform = true;
}

}  // namespace

Architecture encoder_architecture(std::uint64_t seed) {
  Architecture a = seed % 3 == 0 ? outputs_architecture(seed) : random_architecture(seed);
  Random random(seed, "encoders");
  if (seed % 2 == 0) {
    add_both_tables(a, random);
  } else {
    add_transform(a);
  }
  validate(a);
  return a;
}

Architecture mpnet_architecture(std::int64_t layers, std::int64_t positions) {
  Architecture a = known_architecture("bert");
  a.vocabulary = 30;
  a.max_positions = positions;
  Layer first = a.kinds[0];
  first.attention.positions = Positions::relative;
  first.attention.relative_buckets = 8;
  first.attention.relative_max_distance = 9;
  Layer others = first;
  others.attention.shares_table = true;
  std::vector<Layer> all(static_cast<std::size_t>(layers), others);
  all.front() = first;
  a.set_layers(all);
  validate(a);
  return a;
}

Architecture transform_architecture(bool tied, bool embedding_norm) {
  Architecture a = known_architecture("bert");
  a.vocabulary = 30;
  a.layers = 1;
  a.kinds[0].placement = Placement::pre;
  a.head_transform = true;
  a.tied = tied;
  a.embedding_norm = embedding_norm;
  validate(a);
  return a;
}

}  // namespace regauge
