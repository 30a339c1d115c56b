#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "regauge/arch/architecture.h"

namespace regauge {

// A row of theory.md section 4.
struct KnownArchitecture {
  std::string name;
  Architecture architecture;
  std::int64_t parameters = 0;  // 0 where the table does not say
  std::int64_t nullity = 0;     // dimension of the symmetry group
};

// The thirty-one rows, in the table's order. norm_eps = 0, logits as output unless the name says
// more.
const std::vector<KnownArchitecture>& known_architectures();
// The one with this name; throws std::logic_error if there is none.
const Architecture& known_architecture(const std::string& name);
// One of them, wide enough for its parts to be told apart in coarse numbers: D 16, four heads in
// two groups or one, m 24, V 40, norm_eps 1e-6.
Architecture widened(Architecture architecture);

// A small valid architecture, drawn from every switch of Architecture: D 4..7, L 1..3, m 3..8,
// V 10..30 (44..64 where normed tokens must be in general position), T 3..8, head widths below D.
// The same seed gives the same architecture.
Architecture random_architecture(std::uint64_t seed);

// The same with layers that are not alike: heads, widths, positions, biases and activations differ.
Architecture mixed_architecture(std::uint64_t seed);

// The same with norms on what the branches write, as in Gemma 3 or, where seeds are odd, in OLMo 2.
Architecture output_norm_architecture(std::uint64_t seed);

// The same with constants (caps on logits, multipliers), one norm for the two branches of a
// parallel block, and QK-norms of all heads together.
Architecture constants_architecture(std::uint64_t seed);

// The same with experts, some of them with one that all tokens see.
Architecture experts_architecture(std::uint64_t seed);
// With what gpt-oss has: sinks, clamped feed-forwards, biases of experts and routers.
Architecture sinks_architecture(std::uint64_t seed);

// The same with layer scales, in all layers or in some; half of them with registers.
Architecture layer_scale_architecture(std::uint64_t seed);
// DINOv2 with D 6, two heads, 6 neurons or 8 gated ones, four patches of 4 numbers, and 7 classes
// of every position; eps = 0.
Architecture dinov2_architecture(std::int64_t layers, std::int64_t registers, bool gated);

// The same with delta nets in place of attention, or attention whose output is gated, behind rms
// norms.
Architecture delta_architecture(std::uint64_t seed);
void set_delta_net(Layer& layer, const DeltaNet& delta);
// theory2.md's Qwen3-Next: V 16, two heads of 4 that share one kv head, half of it rotary, 5 gated
// neurons; with `delta` the first layer has a delta net of 1 key head of 3 and 2 value heads of 2,
// kernel 3. eps = 0.
Architecture qwen3_next_architecture(std::int64_t width, std::int64_t layers, bool delta);

// The same with what Gemma 4 has: norms of values, keys as values in some layers, pairs that stay
// where they are, and a number that multiplies the stream.
Architecture value_norm_architecture(std::uint64_t seed);
// Gemma 4 E2B in small: layers of one kind, of which the last `shared` take keys and values from
// the one before them, with tables of that width or none.
struct Gemma4Sizes {
  std::int64_t width = 6;
  std::int64_t vocabulary = 30;
  std::int64_t neurons = 7;
  std::int64_t table_width = 0;
  std::int64_t layers = 2;
  std::int64_t shared = 0;
  bool twice_as_wide = false;
  std::int64_t heads = 2;
  bool eps = false;
  std::int64_t vectors = 0;
};
Architecture gemma4_small_architecture(const Gemma4Sizes& sizes);
Architecture table_architecture(std::uint64_t seed);
// Gemma 4 in small: D 8, two layers of two heads of 4, one kv head, values of the first layer their
// own and those of the second keys, of which one pair of two turns; m 9, V 30, tied. eps = 0.
Architecture gemma4_architecture();

// The same with experts that have learned factors or, beside a shared expert, norms of their own.
Architecture own_norms_architecture(std::uint64_t seed);
// Gemma 4 in small with 3 experts of 4 neurons, two of them active, beside a shared one of 5.
Architecture gemma4_experts_architecture();

// CLIP in small, or SigLIP: D 6 for text, which is read at its last position, and 8 for pictures;
// two layers of two heads, T 5; CLIP's projections and SigLIP's of texts are 4 wide, and SigLIP's
// hidden states of pictures count. eps = 0.
Architecture text_tower(bool siglip);
Architecture vision_tower(bool siglip);
Architecture two_towers(bool siglip);

// The same with vectors among tokens, in front of norms and without tables of positions.
Architecture vectors_architecture(std::uint64_t seed);

// The same with what encoders have: both kinds of positions where seeds are even, a transform in
// front of the head behind a final norm where they are odd.
Architecture encoder_architecture(std::uint64_t seed);
// Of pictures: turned by their places (seed % 4 == 0), with a table of places (1), with a token for
// distillation (2); classes of the first position, or of the mean in front of or behind the norm.
Architecture vision_architecture(std::uint64_t seed);
// DINOv3 in small: D 8, two layers of two heads of 4, 5 neurons, 7 classes of every position,
// patches of 12 numbers; or `wide`: D 12, one layer of three heads, 4 neurons, 6 classes, patches
// of 16; one register. eps = 0.
Architecture dinov3_architecture(bool wide);
// BEiT in small: DINOv2 in small with tables of places in 2 x 2 patches of 9 numbers, of each layer
// or shared, and 7 classes of the mean behind its norm, or of the class token.
Architecture beit_architecture(std::int64_t layers, bool shared, bool mean);
// DeiT in small: two heads of 7 classes, or hidden states and a pooler; D 6, two layers. eps = 0.
Architecture deit_architecture(bool two_heads);
// encoder_architecture with a transform, with a token that is dropped, and contacts of heads.
Architecture protein_architecture(std::uint64_t seed);
// ESM-2 in small: modernbert_architecture behind norms alone, with biases; eps = 0.01.
Architecture esm_architecture(bool tied, bool contacts);

// The same with a first attention that reads what the embedding norm writes, and a transform in
// front of tokens, or of classes, which may be read off the mean of all positions.
Architecture bare_architecture(std::uint64_t seed);
// ModernBERT in small: D 8, two heads of 4, 5 neurons, windows of 3 in both directions but in the
// first layer; tied behind a transform (`head`), or 8 classes of every position. eps = 0.
Architecture modernbert_architecture(std::int64_t vocabulary, std::int64_t layers, bool head);
// "bert" with 30 tokens, a table of 8 distances that all layers share, and so many positions.
Architecture mpnet_architecture(std::int64_t layers, std::int64_t positions);
// "bert" with 30 tokens and one layer that norms what it reads, and a transform behind its final
// norm.
Architecture transform_architecture(bool tied, bool embedding_norm);

// ALBERT in small: "bert" with 24 tokens in a narrow table, one layer that is gone through several
// times, and a transform in front of the tied head; eps = 0.
Architecture albert_architecture(std::int64_t width, std::int64_t passes);
// The same with one layer or two, other heads, tables, outputs, activations and eps.
Architecture repeated_architecture(std::uint64_t seed);

// The same with several outputs, poolers, and classes of every position.
Architecture outputs_architecture(std::uint64_t seed);

// Encoder-decoders: two stacks, tables that layers share, layers without a feed-forward,
// cross-attention with heads of its own.
Architecture encoder_decoder(std::uint64_t seed);

// T5 with V tokens, width D, encoder and decoder blocks, two heads of width d, m neurons, four
// buckets; eps = 0. `alone`: every layer has a table of its own (UMT5).
struct T5Sizes {
  std::int64_t vocabulary, width, encoder, decoder, head, ffn;
};
Architecture t5_architecture(const T5Sizes& sizes, bool gated, bool tied, bool alone = false);

// Encoder-decoders of the other kind: layer norms, norms of sums, position tables and embedding
// norms of each stack, some with a token table of each; tied.
Architecture two_streams(std::uint64_t seed);

// BART, mBART, Pegasus or Marian with sizes as T5's, every bias, tables of five positions; eps =
// 0.01.
Architecture bart_architecture(const T5Sizes& sizes, PositionTable table, Placement placement,
                               bool embedding_norm);

// The same with an encoder of vectors: one to three convolutions and a position table of its own.
Architecture frames_architecture(std::uint64_t seed);
// Whisper with sizes as T5's, keys without biases, frames of 3 numbers, 5 channels between its two
// convolutions, encoder positions 4 and decoder positions 5; eps = 0.01.
Architecture whisper_architecture(const T5Sizes& sizes);

// wav2vec2 and HuBERT: "bert" or "gpt2" behind one to three convolutions with norms of each kind, a
// norm in front of the map into the stream, and a positional convolution; classes or hidden states.
Architecture sounds_architecture(std::uint64_t seed);
// With D 6, one layer of two heads of 3 and 7 neurons, nine letters, two convolutions of 5 and 6
// channels, a positional kernel of 4 in two groups; `stable`: norms of what branches read, and
// convolutions with biases and layer norms.
Architecture wav2vec2_architecture(bool stable);

// The same with other routers: sigmoid scores, a bias that only selects, groups of experts.
Architecture router_architecture(std::uint64_t seed);

// The same with latents, of keys and values and in half of them of queries.
Architecture latents_architecture(std::uint64_t seed);

// Random rotary architectures of which one or two pairs come round to where they were at every
// position, many with key biases.
std::vector<Architecture> full_turn_architectures(std::size_t count);

}  // namespace regauge
