#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

// What the shortest source becomes that every convolution can read; padding makes several of one.
std::int64_t least_positions(const Architecture& a) {
  for (std::int64_t source = 1;; ++source) {
    std::int64_t positions = source;
    for (const Convolution& convolution : a.convolutions) {
      positions = positions > 0 ? convolution.positions(positions) : 0;
    }
    if (positions > 0) return positions;
  }
}

}  // namespace

Architecture frames_architecture(std::uint64_t seed) {
  Architecture a = two_streams(seed);
  Random random(seed, "frames");
  a.embedding_norm = false;
  a.encoder_vocabulary = 0;
  a.sinusoids = Sinusoids::pairs;
  a.first_position = 0;
  a.position_table = PositionTable::learned;
  a.max_positions = 3 + random.below(4);
  a.encoder_positions = random.coin() ? 3 + random.below(4) : 0;
  std::vector<Layer> layers;
  for (std::int64_t n = 0; n < a.layers; ++n) {
    Layer layer = a.layer(n);
    layer.placement = Placement::pre;
    Attention& attention = layer.attention;
    attention.positions = Positions::none;
    attention.rotary_dims = attention.relative_buckets = attention.relative_max_distance = 0;
    attention.rotary_frequencies.clear();
    attention.shares_table = false;
    layers.push_back(layer);
  }
  a.set_layers(layers);
  a.input_width = 2 + random.below(3);
  for (std::int64_t left = 1 + random.below(3); left > 0; --left) {
    Convolution of;
    of.channels = left == 1 ? a.width : 3 + random.below(4);
    of.kernel = 1 + random.below(4);
    of.stride = 1 + random.below(2);
    of.padding = random.below(of.kernel);
    of.bias = random.coin();
    a.convolutions.push_back(of);
  }
  const std::int64_t least = least_positions(a);
  if (a.source_positions() < least) a.encoder_positions = least;
  validate(a);
  return a;
}

Architecture whisper_architecture(const T5Sizes& sizes) {
  Architecture a = bart_architecture(sizes, PositionTable::learned, Placement::pre, false);
  a.head_bias = false;
  std::vector<Layer> layers;
  for (std::int64_t n = 0; n < a.layers; ++n) {
    layers.push_back(a.layer(n));
    layers.back().attention.biases.k = false;
  }
  a.set_layers(layers);
  a.encoder_positions = 4;
  a.input_width = 3;
  a.convolutions = {{.channels = 5, .kernel = 3, .padding = 1},
                    {.channels = a.width, .kernel = 3, .stride = 2, .padding = 1}};
  validate(a);
  return a;
}

Architecture sounds_architecture(std::uint64_t seed) {
  Random random(seed, "sounds");
  const bool post = random.coin();
  Architecture a = known_architecture(post ? "bert" : "gpt2, untied");
  a.layers = 1 + random.below(2);
  a.causal = random.below(4) == 0;
  a.input = Input::vectors;
  a.vocabulary = a.token_types = 0;
  a.input_width = 1 + random.below(2);
  a.input_bias = true;
  a.position_table = PositionTable::none;
  a.max_positions = 0;
  a.embedding_norm = post;
  a.norm_eps = 0.01;
  a.output = random.coin() ? Output::classes : Output::hidden;
  a.classes = a.output.has(Output::classes) ? 9 : 0;
  a.classes_everywhere = a.classes > 0;
  a.head_bias = a.classes > 0 && random.coin();
  a.tied = a.log_probabilities = a.head_transform = false;
  const auto norm = random.below(3);
  a.convolution_norm = norm == 0   ? ConvolutionNorm::none
                       : norm == 1 ? ConvolutionNorm::first
                                   : ConvolutionNorm::layer;
  a.input_norm = random.below(4) > 0;
  for (std::int64_t left = 1 + random.below(3); left > 0; --left) {
    Convolution of;
    of.channels = 4 + random.below(4);
    of.kernel = 2 + random.below(3);
    of.stride = 1 + random.below(2);
    of.bias = random.coin() && norm != 1;
    a.convolutions.push_back(of);
  }
  a.positional_kernel = 2 + random.below(3);
  a.positional_groups = 2 + random.below(2);
  a.kinds[0].ffn.activation = random.coin() ? Activation::gelu : Activation::relu;
  validate(a);
  return a;
}

Architecture wav2vec2_architecture(bool stable) {
  Architecture a = sounds_architecture(0);
  a.width = 6;
  a.layers = 1;
  a.causal = false;
  a.input_width = 1;
  a.embedding_norm = !stable;
  a.input_norm = a.head_bias = a.classes_everywhere = true;
  a.output = Output::classes;
  a.classes = 9;
  a.convolution_norm = stable ? ConvolutionNorm::layer : ConvolutionNorm::first;
  a.convolutions = {{.channels = 5, .kernel = 3, .stride = 2, .bias = stable},
                    {.channels = 6, .kernel = 2, .bias = stable}};
  a.positional_kernel = 4;
  a.positional_groups = 2;
  Layer& layer = a.kinds[0];
  layer.placement = stable ? Placement::pre : Placement::post;
  layer.attention.heads = layer.attention.kv_heads = 2;
  layer.attention.qk_width = layer.attention.v_width = 3;
  layer.ffn.width = 7;
  layer.ffn.activation = Activation::gelu;
  validate(a);
  return a;
}

}  // namespace regauge
