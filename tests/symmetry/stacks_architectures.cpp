#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {

Architecture two_streams(std::uint64_t seed) {
  Architecture a = encoder_decoder(seed);
  Random random(seed, "two streams");
  a.tied = true;
  a.log_probabilities = false;
  a.norm_eps = 0.01;
  a.norm = random.below(4) > 0 ? Norm::layer : Norm::rms;
  a.norm_bias = a.norm == Norm::layer && random.below(4) > 0;
  a.embedding_norm = random.coin();
  const auto table = random.below(3);
  a.position_table = table == 0   ? PositionTable::none
                     : table == 1 ? PositionTable::sinusoidal
                                  : PositionTable::learned;
  a.max_positions = 3 + random.below(4);
  if (table == 1) {
    a.sinusoids = random.coin() ? Sinusoids::halves : Sinusoids::pairs;
    if (a.width % 2 == 0 && random.coin()) a.sinusoids = Sinusoids::halves_inclusive;
    a.first_position = random.below(3);
  }
  const Placement placement = random.coin() ? Placement::post : Placement::pre;
  std::vector<Layer> layers;
  for (std::int64_t n = 0; n < a.layers; ++n) {
    Layer layer = a.layer(n);
    layer.placement = placement;
    layer.branch_scale = 1;
    Attention& attention = layer.attention;
    if (a.has_position_table()) {
      attention.positions = Positions::none;
      attention.rotary_dims = attention.relative_buckets = attention.relative_max_distance = 0;
      attention.rotary_frequencies.clear();
      attention.shares_table = false;
    }
    layers.push_back(layer);
  }
  a.set_layers(layers);
  const bool trivial = placement == Placement::post && table == 1 && !a.embedding_norm;
  if (trivial && random.coin()) a.encoder_vocabulary = 10 + random.below(10);
  // Normed rows lie on an ellipsoid, and few of them do not tell which.
  if (a.embedding_norm) a.vocabulary += 34;
  validate(a);
  return a;
}

Architecture bart_architecture(const T5Sizes& sizes, PositionTable table, Placement placement,
                               bool embedding_norm) {
  Architecture a = t5_architecture(sizes, false, true, true);
  a.norm = Norm::layer;
  a.norm_bias = a.head_bias = true;
  a.norm_eps = 0.01;
  a.position_table = table;
  a.max_positions = 5;
  a.embedding_norm = embedding_norm;
  if (table == PositionTable::sinusoidal) a.sinusoids = Sinusoids::halves;
  std::vector<Layer> layers;
  for (std::int64_t n = 0; n < a.layers; ++n) {
    Layer layer = a.layer(n);
    layer.placement = placement;
    layer.attention.positions = Positions::none;
    layer.attention.relative_buckets = layer.attention.relative_max_distance = 0;
    layer.attention.biases = {.q = true, .k = true, .v = true, .o = true};
    if (layer.has_ffn()) {
      layer.ffn.activation = Activation::gelu;
      layer.ffn.biases = {.up = true, .down = true};
    }
    layers.push_back(layer);
  }
  a.set_layers(layers);
  validate(a);
  return a;
}

}  // namespace regauge
