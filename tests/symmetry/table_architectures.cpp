// Tables of layers, keys and values of earlier layers: Gemma 4 E2B in small.
#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {

Architecture gemma4_small_architecture(const Gemma4Sizes& sizes) {
  Architecture a = gemma4_architecture();
  a.width = sizes.width;
  a.vocabulary = sizes.vocabulary;
  a.table_width = sizes.table_width;
  a.input_width = sizes.vectors;
  if (sizes.eps) a.norm_eps = 0.01;
  Layer layer = a.kinds.front();
  layer.attention.heads = sizes.heads;
  layer.ffn.width = sizes.neurons;
  Layer shared = layer;
  shared.attention.shares_keys = true;
  if (sizes.twice_as_wide) shared.ffn.width *= 2;
  std::vector<Layer> layers(static_cast<std::size_t>(sizes.layers - sizes.shared), layer);
  layers.resize(static_cast<std::size_t>(sizes.layers), shared);
  a.set_layers(layers);
  validate(a);
  return a;
}

// Kinds that differ in what they see, some of whose last layers take keys and values from earlier
// ones, some as values; with and without tables, vectors and eps.
Architecture table_architecture(std::uint64_t seed) {
  Random random(seed, "tables");
  Architecture a = gemma4_architecture();
  a.width = 6 + 2 * static_cast<std::int64_t>(random.below(2));
  a.vocabulary = 24 + static_cast<std::int64_t>(random.below(6));
  if (random.coin()) a.norm_eps = 0.01;
  Layer full = a.kinds.front();
  full.attention.kv_heads = random.coin() ? 2 : 1;
  full.attention.heads = full.attention.kv_heads * (random.coin() ? 2 : 1);
  full.ffn.width = 3 + static_cast<std::int64_t>(random.below(4));
  full.stream_scale = random.below(4) > 0;
  if (random.below(3) == 0) full.placement = Placement::behind;
  Layer near = full;
  near.attention.window = 3;
  full.attention.keys_as_values = random.below(3) == 0;
  std::vector<Layer> layers = {near, full};
  const bool sharing = random.below(4) > 0;
  for (const Layer& kind : {near, full}) {
    if (!sharing || random.below(3) == 0) continue;
    layers.push_back(kind);
    layers.back().attention.shares_keys = true;
    if (random.coin()) layers.back().ffn.width *= 2;
  }
  a.set_layers(layers);
  if (!sharing || random.coin()) a.table_width = 2 + static_cast<std::int64_t>(random.below(3));
  const bool vectors = full.norms_input() && random.coin();
  if (vectors) a.input_width = random.coin() ? a.width + 1 : 4;
  if (a.has_tables() && a.input_width > 0) a.vector_row = random.coin() ? 3 : 0;
  a.tied = random.coin();
  validate(a);
  return a;
}

}  // namespace regauge
