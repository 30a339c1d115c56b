#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace regauge {

// What one layer computes: attention or what stands in its place, and a feed-forward.

enum class Positions { none, rotary, alibi, relative };  // inside attention
enum class QkNorm { none, heads, joint };
enum class Placement { pre, post, both, behind };
// relu_squared: relu(x)^2; gelu_quick: x sigmoid(1.702 x); tanh: of a pooler
enum class Activation { relu, relu_squared, gelu, gelu_tanh, gelu_quick, silu, tanh };
enum class Scoring { softmax, sigmoid };  // of a router's logits

struct Attention {
  std::int64_t heads = 0;     // h
  std::int64_t kv_heads = 0;  // h_kv; divides heads
  std::int64_t qk_width = 0;  // d_k, of one head
  std::int64_t v_width = 0;   // d_v, of one head

  Positions positions = Positions::none;
  std::int64_t rotary_dims = 0;  // coordinates of each head that rotate: the first ones; even
  // One per pair, radians per position. A pair with 0 stays where it is.
  std::vector<double> rotary_frequencies;
  std::int64_t relative_buckets = 0;  // T5's table: buckets x heads
  // Positions are places in a square of patches. Rotary: the first half of the pairs turn by the
  // row of a patch, the others by its column; of n places the i-th is (2i + 1)/n - 1, and learned
  // rows in front do not turn (DINOv3). Relative: of n places the table has (2n - 1)^2 rows, one
  // for every difference of places, row by row, and three for a class token that asks a patch, for
  // a patch that asks it, and for itself (BEiT).
  bool grid = false;
  std::int64_t relative_max_distance = 0;
  bool shares_table = false;  // the table is that of the stack's first layer (T5)
  bool cross = false;         // keys and values read what the encoder has written

  // Keys and values read a normed vector of this width, which reads the stream (DeepSeek); 0: they
  // read the stream themselves. The rotating part of the keys is then one for all heads, and reads
  // the stream. Queries may have such a vector of their own.
  std::int64_t kv_latent = 0;
  std::int64_t q_latent = 0;

  // An rms norm on q and on k: of each head, with gains shared by the heads of a layer, or of all
  // heads together, with a gain for every coordinate of every head (OLMo 2).
  QkNorm qk_norm = QkNorm::none;
  // An rms norm without a gain on the values of each kv head (Gemma 4).
  bool value_norm = false;
  // Values are what k's map writes, in front of the norm of keys (Gemma 4): there is no v.
  bool keys_as_values = false;
  // Keys and values are those of an earlier layer: the last one whose attention is the same and has
  // its own (Gemma 4). There are then no k, v and k_norm.
  bool shares_keys = false;
  double scale = 0;  // logits = scale * q.k
  // q of position t is multiplied by 1 + temperature log(1 + floor(t / temperature_length))
  // (Ministral 3); 0: it is not.
  double temperature = 0;
  std::int64_t temperature_length = 0;
  double softcap = 0;  // logits <- softcap * tanh(logits / softcap); 0: as they are
  // Keys that a query sees on its side, itself among them; where it sees both sides, as many on
  // the other; 0: unbounded.
  std::int64_t window = 0;
  // A learned logit of each head beside those of the keys, whose share of the softmax is lost.
  bool sinks = false;
  // Contacts are read off the patterns of the heads, each of which counts so much (ESM).
  bool contacts = false;
  // What a head has gathered is multiplied by sigmoid(x gate), coordinate by coordinate, before o
  // (Qwen3-Next).
  bool gate = false;

  struct Biases {
    bool q = false, k = false, v = false, o = false;
    bool operator==(const Biases&) const = default;
  };
  Biases biases;

  bool operator==(const Attention&) const = default;
  std::int64_t group() const { return heads / kv_heads; }  // query heads of a kv head
  bool has_qk_norm() const { return qk_norm != QkNorm::none; }
  bool has_latents() const { return kv_latent > 0; }
  const char* value_map() const { return keys_as_values ? "k" : "v"; }  // what writes the values
  // The columns of a head in q and k: with latents those that do not rotate, else all.
  std::int64_t plain_width() const { return has_latents() ? qk_width - rotary_dims : qk_width; }
  // The softmax does not see a number that is added to all logits of a query.
  bool forgets_common_logit() const { return softcap == 0 && !sinks; }
};

// What a layer may have in place of attention: a gated delta net (Qwen3-Next). Queries, keys and
// values pass a causal convolution over the positions, every channel with a kernel of its own, and
// SiLU; q and k of a key head are divided by their lengths, sqrt(|x|^2 + kLengthEps). Value head i,
// of key head i / group(), has a state S, [key_width, value_width], at first 0:
//   S <- exp(-exp(decay) softplus(a)) S;   S <- S + k^T sigmoid(b) (v - k S);   y = q S / sqrt(d_k)
// and writes rms(y) gain silu(z) to o; the gain is shared by the heads.
struct DeltaNet {
  static constexpr double kLengthEps = 1e-6;
  std::int64_t key_heads = 0;  // 0: there is none; divides value_heads
  std::int64_t value_heads = 0;
  std::int64_t key_width = 0;    // of one head
  std::int64_t value_width = 0;  // of one head
  std::int64_t kernel = 0;       // positions that a channel sees, its own the last

  bool operator==(const DeltaNet&) const = default;
  std::int64_t group() const { return value_heads / key_heads; }  // value heads of a key head
  std::int64_t keys() const { return key_heads * key_width; }
  std::int64_t values() const { return value_heads * value_width; }
};

// A feed-forward that is many: of `count` experts a router chooses the `active` ones with the
// largest scores, softmax or sigmoid of x router, and what these write is added up by their scores.
// The experts stand side by side in the maps of the feed-forward: expert e has the neurons [e m, (e
// + 1) m), and routing group g the experts [g count / groups, (g + 1) count / groups).
struct Experts {
  std::int64_t count = 0;     // 0: a plain feed-forward
  std::int64_t active = 0;    // of a token
  bool renormalised = false;  // the weights of the active ones are divided by their sum
  bool router_bias = false;
  std::int64_t shared_width = 0;  // neurons of one more that all tokens see; 0: there is none
  bool shared_gate = false;       // what it writes is multiplied by sigmoid(x shared.router)
  Scoring scoring = Scoring::softmax;
  bool selection_bias = false;  // a number of each expert is added where scores are compared
  double weight_scale = 1;      // multiplies the weights in the end
  // A norm of their own for what the router, the experts and the shared expert read of the stream,
  // and for what the experts together and the shared expert write, before these are added (Gemma
  // 4).
  bool own_norms = false;
  bool scales = false;      // a learned factor of each expert multiplies its weight (Gemma 4)
  double router_scale = 1;  // multiplies the router's logits
  // Only experts of the `active_groups` best groups are chosen; a group counts what its
  // `group_leaders` best experts score together.
  std::int64_t groups = 1;
  std::int64_t active_groups = 1;
  std::int64_t group_leaders = 1;

  bool operator==(const Experts&) const = default;
  bool has_groups() const { return active_groups < groups; }
};

struct FeedForward {
  std::int64_t width = 0;  // m, of one expert; 0: the layer has none
  Activation activation = Activation::gelu;
  bool gated = false;
  // Gated only: what gate and up write is clamped, gate to at most `limit`, up to [-limit, limit],
  // and up + up_offset multiplies the gate (gpt-oss). 0: it is not clamped.
  double limit = 0;
  double up_offset = 0;

  struct Biases {
    bool gate = false, up = false, down = false;
    bool operator==(const Biases&) const = default;
  };
  Biases biases;

  Experts experts;

  bool operator==(const FeedForward&) const = default;
  std::int64_t neurons() const { return width * std::max<std::int64_t>(1, experts.count); }
};

// What a layer does with the stream x:
//   pre        x += attention(norm(x));        x += ffn(norm(x))
//   parallel   x += attention(norm(x)) + ffn(norm(x)), by two norms or by one
//   post       x = norm(x + attention(x));     x = norm(x + ffn(x))
//   both       x += norm(attention(norm(x)));  x += norm(ffn(norm(x)))   (Gemma 2, 3)
//   behind     x += norm(attention(x));        x += norm(ffn(x))         (OLMo 2)
// What a branch writes is multiplied by branch_scale before it is added (Granite), or by a learned
// factor for each coordinate (layer_scale; pre only, DINOv2). What leaves the layer is multiplied
// by a learned number (stream_scale; Gemma 4). A layer without a feed-forward ends with its
// attention: a decoder's block with cross-attention is such a layer and one whose attention is the
// cross-attention.
struct Layer {
  Attention attention;
  DeltaNet delta;  // in place of attention, which then has no heads
  FeedForward ffn;
  Placement placement = Placement::pre;
  bool parallel = false;     // pre only
  bool shared_norm = false;  // parallel only: the feed-forward reads attn.norm, too
  double branch_scale = 1;
  bool layer_scale = false;
  bool stream_scale = false;

  bool operator==(const Layer&) const = default;
  // Where norms stand: on what attention and feed-forward read, on what they write, on the sum.
  bool norms_input() const { return placement == Placement::pre || placement == Placement::both; }
  bool norms_output() const {
    return placement == Placement::both || placement == Placement::behind;
  }
  bool norms_sum() const { return placement == Placement::post; }
  bool has_delta() const { return delta.key_heads > 0; }
  bool has_ffn() const { return ffn.width > 0; }
  bool has_ffn_norm() const { return has_ffn() && placement != Placement::behind && !shared_norm; }
  const char* norm_before_ffn() const { return shared_norm ? "attn.norm" : "ffn.norm"; }
  // The norms in front of the router and of the shared expert, in front of which others may have
  // one of their own.
  const char* norm_before_router() const {
    return ffn.experts.own_norms ? "ffn.router.norm" : norm_before_ffn();
  }
  const char* norm_before_shared() const {
    return ffn.experts.own_norms ? "ffn.shared.norm" : norm_before_ffn();
  }
};

}  // namespace regauge
