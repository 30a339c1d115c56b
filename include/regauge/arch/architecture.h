#pragma once

#include <nlohmann/json_fwd.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/arch/layer.h"

namespace regauge {

enum class Input { tokens, vectors };  // vectors: image patches or audio frames, flattened
enum class PositionTable {
  none,
  sinusoidal,
  learned
};  // a row for each position, added to the input
// The fixed table: row t has sin and cos of t times a frequency. Of width D, with 10000^(-2i/D):
// pairs, in the columns 2i and 2i + 1; halves, all sines first (Marian). halves_inclusive: so, with
// frequencies from 1 to 1/10000, both among them (M2M-100).
enum class Sinusoids { pairs, halves, halves_inclusive };
enum class Norm { rms, layer };
enum class Output { tokens, classes, hidden, pooled };

// What counts as the function: one output or several, each once.
class Outputs {
 public:
  Outputs(Output only) { add(only); }  // NOLINT(google-explicit-constructor): most have one
  void add(Output output) { bits_ |= bit(output); }
  bool has(Output output) const { return (bits_ & bit(output)) != 0; }
  bool operator==(const Outputs&) const = default;
  std::vector<Output> list() const;  // in the order of the enumeration

 private:
  static unsigned bit(Output output) { return 1U << static_cast<unsigned>(output); }
  unsigned bits_ = 0;
};

// Norms with gain and bias behind convolutions: none; behind the first one, of each channel over
// all positions; behind each, of all channels of a position.
enum class ConvolutionNorm { none, first, layer };

// A convolution over the positions of vectors, with zeros around them, and a gelu behind it.
struct Convolution {
  std::int64_t channels = 0;  // that it writes
  std::int64_t kernel = 0;    // positions that it reads
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // zeros on each side
  bool bias = true;

  bool operator==(const Convolution&) const = default;
  std::int64_t positions(std::int64_t read) const {  // that it writes, at least 0
    return std::max<std::int64_t>(0, (read + 2 * padding - kernel + stride) / stride);
  }
};

// What a Transformer computes, with no word about how a file stores it. Sizes in theory.md's
// notation.
//   x = embed(input) + positions; embedding norm, if any; the layers; a final norm, but for post;
//   the outputs: tokens, head(x); hidden, x itself; pooled, what a pooler, activation(x W + b),
//   makes of one position: the first, or the last one if causal or last_position; classes, read off
//   that position, or off the pooler.
// A model may stand beside another one, with which it shares nothing but the checkpoint (CLIP).
// An encoder-decoder is one list of layers, too. The first `encoder_layers` of them read a sequence
// of their own, in both directions; behind the last of them stands a norm, encoder.norm, but for
// post, whose output the cross-attention of the others reads. Both sequences are embedded by one
// token table, or each by its own; position tables and norms of the embedding are there for each.
// Or the encoder reads vectors, frames of sound: convolutions follow each other, and what the last
// one writes is the encoder's stream, to which its position table is added (Whisper).
struct Architecture {
  std::int64_t width = 0;           // D
  std::int64_t layers = 0;          // L
  std::int64_t encoder_layers = 0;  // 0: there is one stack
  // Each layer is gone through so many times, with the same parameters, before the next one
  // (ALBERT).
  std::int64_t passes = 1;
  // Layers need not be alike: their kinds, all different, in the order of their first layers, and
  // the kind of each layer. An empty pattern: all layers are of the first kind.
  std::vector<Layer> kinds = {Layer{}};
  std::vector<std::int64_t> pattern;

  // Input. Vectors may stand among tokens: both a vocabulary and an input_width are there.
  Input input = Input::tokens;
  std::int64_t vocabulary = 0;          // V, rows of the token table (tokens)
  std::int64_t encoder_vocabulary = 0;  // of the encoder's own; 0: it reads the decoder's
  std::int64_t input_width = 0;         // length of one patch or frame (vectors)
  bool input_bias = false;              // of the map from vectors to the stream
  // In front of that map, or, in an encoder of vectors, in its place.
  std::vector<Convolution> convolutions;
  ConvolutionNorm convolution_norm = ConvolutionNorm::none;  // its eps is kConvolutionEps
  static constexpr double kConvolutionEps = 1e-5;
  bool input_norm = false;  // a layer norm between convolutions and map (wav2vec2)
  // x += gelu(convolution of x) in front of the embedding norm (wav2vec2): a kernel over so many
  // positions, of which the middle one, or of two the later one, is a position's own; a channel
  // reads those of its group. What it has of each position has a learned length, weight norm. 0:
  // there is none.
  std::int64_t positional_kernel = 0;
  std::int64_t positional_groups = 1;
  // Where a vector stands among tokens, so many further ones stand, each of input_width, too: the
  // i-th is added to the stream behind layer i by a map of that layer (Qwen3-VL).
  std::int64_t deep_inputs = 0;
  // r: a third branch of each layer reads the stream as it is, x += rms((act(x gate) * p) down)
  // gain, with numbers p of the input's token and of its row e of the stream,
  //   p = (rms(e map / sqrt(D)) g + sqrt(r) tokens[token]) / sqrt(2),
  // where gate, down, gain, map and the table `tokens` are the layer's own and the gain g is one
  // for all layers; act is that of the feed-forward (Gemma 4). 0: there is none.
  std::int64_t table_width = 0;
  std::int64_t vector_row = 0;      // of these tables: what vectors among tokens read
  bool class_token = false;         // a learned row in front of the sequence (vectors)
  bool distillation_token = false;  // another one behind it, whose position is row 1 (DeiT)
  // Learned rows behind the class token, without positions; attention sees them as any other.
  std::int64_t registers = 0;
  std::int64_t token_types = 0;  // rows of the segment table; 0: none (tokens)
  double embedding_scale = 1;    // multiplies the token rows (Gemma: sqrt(D))
  // A token whose row counts as 0; of a sequence in which a share s is this token, the rows of the
  // others are divided by 1 - s (ESM). -1: there is none.
  std::int64_t dropped_token = -1;
  bool embedding_norm = false;  // a norm with gain (and bias) on the embedded input
  // Tables, embedding norm and tied head are so wide, and a map with a bias, embed.map, brings what
  // they make into the stream (ALBERT); 0: they are as wide as the stream.
  std::int64_t embedding_width = 0;
  // The first attention has no norm of its own: it reads what the embedding norm writes
  // (ModernBERT; pre only).
  bool bare_first_attention = false;
  PositionTable position_table = PositionTable::none;
  Sinusoids sinusoids = Sinusoids::pairs;
  std::int64_t first_position = 0;  // what the fixed table counts from
  // T: rows of a table (the class token has row 0, registers none), context length otherwise.
  std::int64_t max_positions = 0;
  std::int64_t encoder_positions = 0;  // of the encoder's learned table; 0: max_positions, too
  bool causal = true;

  // Norms.
  Norm norm = Norm::rms;
  bool norm_bias = false;  // layer norms only
  double norm_eps = 0;

  // Output.
  Outputs output = Output::tokens;
  std::int64_t classes = 0;         // columns of the head for Output::classes
  bool classes_everywhere = false;  // every position has its own
  bool distillation_head = false;   // a second head of classes reads the distillation token (DeiT)
  bool last_position = false;       // the one position is the last, as if causal (SigLIP)
  bool mean_position = false;       // classes are read off the mean of all positions (ModernBERT)
  // ... of those behind the learned rows in front, and the final norm stands on that mean (BEiT).
  bool mean_norm = false;
  bool pooler = false;  // a dense map with a bias, and an activation
  Activation pooler_activation = Activation::tanh;
  bool classes_pooled = false;  // classes are read off the pooler
  // BERT's dense map, activation and norm in front of the head, behind the final norm if any. The
  // head is that of the tokens, or of the classes where there are no tokens.
  bool head_transform = false;
  bool transform_bias = true;
  bool head_bias = false;
  double logit_scale = 1;          // logits <- logit_scale * logits, and then
  double logit_softcap = 0;        // logits <- softcap * tanh(logits / softcap); 0: as they are
  bool tied = false;               // the head is the token table, transposed
  bool log_probabilities = false;  // what counts as the function: logits, or their softmax

  // Another model of the same checkpoint, or none: regauge/arch/towers.h. The outputs of both
  // count.
  std::vector<Architecture> beside;

  bool operator==(const Architecture&) const = default;

  // With those of the model beside, whose layers are numbered on.
  std::int64_t all_layers() const { return layers + (beside.empty() ? 0 : beside.front().layers); }
  const Layer& layer(std::int64_t index) const {
    if (index >= layers && !beside.empty()) return beside.front().layer(index - layers);
    return kinds.at(pattern.empty()
                        ? 0
                        : static_cast<std::size_t>(pattern.at(static_cast<std::size_t>(index))));
  }
  // The first layer of the stack that a layer belongs to.
  std::int64_t stack_of(std::int64_t layer) const {
    return layer < encoder_layers ? 0 : encoder_layers;
  }
  // What the tables and the norm of its stack's embedding are named after.
  const char* embedding_of(std::int64_t layer) const {
    return layer < encoder_layers ? "encoder.embed" : "embed";
  }
  std::string last_norm(std::int64_t layer) const;  // of a layer's sums (post)
  std::string encoder_norm() const {                // behind the encoder
    return plain_stream() ? "encoder.norm" : last_norm(encoder_layers - 1);
  }
  // The token table that a stack reads.
  const char* tokens_of(std::int64_t layer) const {
    return layer < encoder_layers && encoder_vocabulary > 0 ? "encoder.embed.tokens"
                                                            : "embed.tokens";
  }
  std::int64_t source_vocabulary() const {  // of what the encoder reads
    return encoder_vocabulary > 0 ? encoder_vocabulary : vocabulary;
  }
  std::int64_t source_positions() const {  // rows of the encoder's position table
    return encoder_positions > 0 ? encoder_positions : max_positions;
  }
  bool maps_embedding() const { return embedding_width > 0; }
  // Of the row of a token.
  std::int64_t token_width() const { return maps_embedding() ? embedding_width : width; }
  // The stream itself begins behind the embedding norm.
  bool norms_embedding() const { return embedding_norm && !maps_embedding(); }
  // A layer reads what it has written itself.
  bool repeats_layers() const { return passes > 1; }
  // Of what `head.weight` reads.
  std::int64_t head_width() const { return head_transform ? token_width() : width; }
  // The layer whose keys and values this one takes; itself where it has its own.
  std::int64_t keys_of(std::int64_t layer) const;
  bool has_tables() const { return table_width > 0; }
  bool encodes_vectors() const { return encoder_layers > 0 && input_width > 0; }
  bool has_positional() const { return positional_kernel > 0; }
  std::int64_t mapped_width() const {  // of the vectors that embed.input.weight reads
    return convolutions.empty() ? input_width : convolutions.back().channels;
  }
  // Positions of the stream that so many positions of the source become.
  std::int64_t encoded_positions(std::int64_t source) const {
    for (const Convolution& convolution : convolutions) {
      source = source > 0 ? convolution.positions(source) : 0;
    }
    return source;
  }
  std::string convolution(std::size_t index) const {  // its parameters' name
    return embedding_of(0) + (".conv." + std::to_string(index));
  }
  bool has_norm_behind(std::size_t convolution) const {
    return convolution_norm == ConvolutionNorm::layer ||
           (convolution_norm == ConvolutionNorm::first && convolution == 0);
  }
  // A position of this layer does not see later ones.
  bool is_causal(std::int64_t layer) const { return causal && layer >= encoder_layers; }
  // Each layer with embedding and head is a model: none needs what another one has.
  bool layers_stand_alone() const;
  // Sets layers, kinds and pattern.
  void set_layers(const std::vector<Layer>& all);
  Architecture alone() const;  // without the model beside
  // The same model with all layers, `count` of them, like the one at `index`.
  Architecture with_layers_like(std::int64_t index, std::int64_t count) const;

  // The stream is a plain sum: no layer norms it. A model does not mix placements.
  bool plain_stream() const { return !kinds.front().norms_sum(); }
  // The attention of this layer reads the stream behind a norm of its own.
  bool norms_attention(std::int64_t index) const {
    return layer(index).norms_input() && !(index == 0 && bare_first_attention);
  }
  // A row for every position is added to the input: T bounds the length of a sequence.
  bool has_position_table() const { return position_table != PositionTable::none; }
  // Numbers that stand for one vector of the input.
  std::int64_t vector_width() const { return input_width * (1 + deep_inputs); }
  // Learned rows in front of the input's own: those with a position, and all.
  std::int64_t placed_rows() const { return (class_token ? 1 : 0) + (distillation_token ? 1 : 0); }
  std::int64_t leading_rows() const { return placed_rows() + registers; }
  bool has_final_norm() const { return plain_stream() || head_transform; }
  bool has_contacts() const { return kinds.front().attention.contacts; }
  // The transform stands in front of the classes' head.
  bool transforms_classes() const { return head_transform && !output.has(Output::tokens); }
  bool has_head() const { return output.has(Output::tokens) || output.has(Output::classes); }
  // The map to the classes. The head is the tokens' where there are both.
  const char* classes_head() const { return output.has(Output::tokens) ? "head.classes" : "head"; }
  // `head.weight` reads the stream, or a transform of it.
  bool head_reads_stream() const {
    return output.has(Output::tokens) || (has_head() && !classes_pooled);
  }
  bool reads_last_position() const { return causal || last_position; }
  bool pools_everywhere() const { return classes_pooled && classes_everywhere; }
  // All outputs are read off one position.
  bool reads_one_position() const {
    return !classes_everywhere && !mean_position && !distillation_head && !has_contacts() &&
           !output.has(Output::tokens) && !output.has(Output::hidden);
  }
  // A number added to all logits changes nothing that counts.
  bool forgets_common_logit() const { return log_probabilities && logit_softcap == 0; }
  std::int64_t outputs() const;  // columns of the head: vocabulary, classes, or none
};

// One tensor of the canonical form: a matrix of theory.md, y = x W. A vector is a matrix of one
// row.
struct ParameterSpec {
  std::string name;  // "layers.3.attn.q.weight"
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t layer = -1;  // -1: embedding or head
  // Experts side by side: so many equal slices, of rows or of columns.
  std::int64_t slices = 1;
  bool sliced_rows = false;
};

// clang-format off
// The canonical tensors in the order of computation, their shapes, and which models have them.
//   embed.tokens [V,D]                and/or embed.input.weight [input_width,D], embed.input.bias [1,D]
//   embed.class_token [1,D]  embed.distillation_token [1,D]  embed.registers [R,D]  embed.positions [T,D]  embed.types [types,D]
//   embed.norm.{gain,bias} [1,D]  embed.map.{weight [w,D],bias [1,D]}   of tables of width w, and so their norm
//   embed.tables.norm.gain [1,r]
//   encoder.embed.{tokens,positions,norm}    of an encoder-decoder's encoder, likewise
//   embed.conv.I.weight [channels read * kernel, channels], embed.conv.I.bias [1,channels], for I = 0, 1, ...,
//   embed.conv.I.norm.{gain,bias} [1,channels]; encoder.embed.conv.I likewise
//   embed.input.norm.{gain,bias} [1,mapped_width]
//   embed.positional.weight [kernel, D * D/groups], embed.positional.length [1,kernel], embed.positional.bias [1,D]
// In layers.N.attn:
//   norm.{gain,bias} [1,D]                pre: before attention (not in a bare first one); post: behind its sum with the stream
//   post_norm.gain [1,D]                  on what attention writes
//   layer_scale.gain [1,D]                multiplies what attention writes
//   q.weight [D,h*d_k]  k.weight [D,h_kv*d_k]  v.weight [D,h_kv*d_v]  o.weight [h*d_v,D]
//   {q,k,v,o}.bias [1,columns]  {q,k}_norm.gain [1,d_k] (joint: [1,columns])
//   relative_bias [buckets,h]             but where a layer shares the table
//   no v                                  where keys are values; no k, v and k_norm where they are shared
//   sinks [1,h]  gate.weight [D,h*d_v]  contacts [1,h]
// with latents of widths r and s; rot of the d_k coordinates rotate:
//   kv_latent.weight [D,r]  kv_latent.norm.gain [1,r]  q_latent.weight [D,s]  q_latent.norm.gain [1,s]
//   q.weight [s or D,h*(d_k-rot)]  q_rotary.weight [s or D,h*rot]
//   k.weight [r,h*(d_k-rot)]       k_rotary.weight [D,rot]       v.weight [r,h*d_v]
// In layers.N.delta, of n_k key heads and n_v value heads; the norm before it is attn.norm:
//   {q,k}.weight [D,n_k*d_k]  {v,z}.weight [D,n_v*d_v]  {a,b}.weight [D,n_v]  a.bias [1,n_v]
//   {q,k}_conv.weight [kernel,n_k*d_k]  v_conv.weight [kernel,n_v*d_v]
//   decay [1,n_v]  norm.gain [1,d_v]  o.weight [n_v*d_v,D]
// In layers.N.ffn:
//   norm.{gain,bias} [1,D]  post_norm.gain [1,D]  layer_scale.gain [1,D]
//   {gate,up}.weight [D,m]  {gate,up}.bias [1,m]  down.weight [m,D]  down.bias [1,D]
// with E experts, which stand side by side:
//   router.weight [D,E]  router.bias [1,E]  selection.bias [1,E]
//   {gate,up}.weight [D,E*m]  {gate,up}.bias [1,E*m]  down.weight [E*m,D]  down.bias [E,D]
//   shared.{gate,up,down}.weight  shared.router.weight [D,1]  experts.scale.gain [1,E]
//   where they have norms of their own, {router,shared}.norm.gain [1,D] on what router and shared
//   expert read, and {experts,shared}.post_norm.gain [1,D] on what the experts and it write
// In layers.N.table, behind the feed-forward, of width r:
//   gate.weight [D,r]  map.weight [D,r]  tokens [V,r]  down.weight [r,D]  post_norm.gain [1,D]
// In layers.N, behind all branches:
//   scale [1,1]                           multiplies the stream
// In layers.N of the first deep_inputs layers, behind the feed-forward:
//   input.weight [input_width,D]  input.bias [1,D]
// Behind the layers:
//   encoder.norm.{gain,bias} [1,D]        of an encoder-decoder, behind its encoder; not for post
//   head.norm.{gain,bias} [1,D]  head.transform.{weight [D,D],bias [1,D]}  head.transform.norm (post: head.norm)
//   head.weight [D,outputs]               but for a tied model; the transform writes what is as wide as the tables
//   head.bias [1,outputs]  head.pooler.{weight [D,D],bias [1,D]}
//   head.classes.{weight [D,classes],bias [1,classes]}   beside a head of tokens
//   head.distillation.{weight [D,classes],bias [1,classes]}   head.contacts.bias [1,1]
// Of a model beside: layers.N with numbers that go on, and all else as beside.embed.input.weight.
// Query head i reads kv head i / (h / h_kv). Of each head's d_k coordinates the first rotary_dims
// rotate, in pairs (2b, 2b+1), pair b with rotary_frequencies[b]; with latents these are the
// parameters q_rotary and k_rotary, and q and k are the others.
// clang-format on
std::vector<ParameterSpec> parameter_specs(const Architecture& architecture);
// Of one layer, in their order; of embedding and head for -1.
std::vector<ParameterSpec> parameter_specs(const Architecture& architecture, std::int64_t layer);
std::int64_t parameter_count(const Architecture& architecture);
// The layer of a parameter, or of anything else that is named after one; -1: none.
std::int64_t layer_of(std::string_view name);

// Throws UsageError with every problem at once, one per line.
void validate(const Architecture& architecture);
// What is wrong with it, a line each.
std::vector<std::string> problems_of(const Architecture& architecture);

// The `regauge` family's config.json: every field by its name, those of the first kind of layers
// beside the model's own; absent ones at their defaults, unknown keys refused. Where layers differ,
// "kinds" lists what each kind has of its own, and "pattern" the kind of each layer.
nlohmann::json to_json(const Architecture& architecture);
Architecture architecture_from_json(const nlohmann::json& json);
// With the fields that to_json leaves out where they have their defaults.
nlohmann::json complete_json(const Architecture& architecture);
// The same value of a field: files round frequencies, eps and scales, some of them to 32 bits.
bool same_value(const nlohmann::json& a, const nlohmann::json& b);

// A field in which two architectures differ.
struct FieldDifference {
  std::string field;                 // its name in to_json
  std::string a, b;                  // what they say, as JSON
  std::vector<std::int64_t> layers;  // where; empty: in the whole model, or in all layers

  std::string where() const;  // "layers 1, 3: ", or nothing
  std::int64_t first_layer() const { return layers.empty() ? 0 : layers.front(); }
};
std::vector<FieldDifference> differing_fields(const Architecture& a, const Architecture& b);

// theta^(-2b/dims) for b < dims/2.
std::vector<double> rotary_frequencies(std::int64_t dims, double theta);

// The fixed table of PositionTable::sinusoidal.
double sinusoid(const Architecture& architecture, std::int64_t position, std::int64_t column);

// Positions::alibi adds -slope * |query - key| to a head's logits; slopes 2^(-8 (i+1) / heads).
double alibi_slope(std::int64_t head, std::int64_t heads);

// Positions::relative: the row of the table for a key at `offset` = key - query. As in T5: half of
// the rows for keys that come after the query (bidirectional models), half of the rest exact, the
// others logarithmic up to the largest distance.
std::int64_t relative_bucket(const Attention& attention, bool causal, std::int64_t offset);

// Places on a side of a square of so many patches; 0 if they are no square.
std::int64_t side_of(std::int64_t patches);
// Positions::relative with a grid: the row of the table for a key, both counted from the class
// token, 0, on.
std::int64_t grid_row(const Attention& attention, std::int64_t query, std::int64_t key);
// One number for each pair: two are equal where their pairs turn alike at all positions, 0 where
// they stay, and pi where they turn by half.
std::vector<double> pair_characters(const Attention& attention);

}  // namespace regauge
