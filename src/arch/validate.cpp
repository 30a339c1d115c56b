#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "convolution_problems.h"
#include "encoder_problems.h"
#include "expert_problems.h"
#include "output_problems.h"
#include "regauge/arch/architecture.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 31;
constexpr std::int64_t kFarthest = std::int64_t{1} << 20;  // distance, and number of its buckets

// What is wrong with an architecture, in the order found; each problem once.
class Problems {
 public:
  void require(bool holds, std::string problem) {
    if (holds || std::ranges::find(list_, problem) != list_.end()) return;
    list_.push_back(std::move(problem));
  }
  void require_size(std::int64_t value, const char* name) {
    require(value > 0 && value < kLargest,
            fmt::format("{} is {}; expected a positive number below 2^31", name, value));
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

void check_pattern(const Architecture& a, Problems& problems) {
  std::vector<std::int64_t> seen;  // kinds in the order of their first layers
  for (const auto kind : a.pattern) {
    if (std::ranges::find(seen, kind) == seen.end()) seen.push_back(kind);
  }
  bool canonical = a.pattern.empty() ? a.kinds.size() == 1
                                     : static_cast<std::int64_t>(a.pattern.size()) == a.layers &&
                                           seen.size() == a.kinds.size() && seen.size() > 1;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != static_cast<std::int64_t>(i)) canonical = false;
  }
  for (std::size_t i = 0; i < a.kinds.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) canonical = canonical && !(a.kinds[i] == a.kinds[j]);
  }
  problems.require(canonical,
                   fmt::format("pattern [{}] does not go with {} layers of {} kinds; expected the "
                               "kind of each layer, from 0 on in the order of first use, kinds "
                               "that all differ, and no pattern where there is one kind",
                               fmt::join(a.pattern, ", "), a.layers, a.kinds.size()));
  for (const auto& kind : a.kinds) {
    problems.require(kind.placement == a.kinds.front().placement,
                     "placement differs between layers");
    problems.require(kind.parallel == a.kinds.front().parallel, "parallel differs between layers");
    problems.require(kind.shared_norm == a.kinds.front().shared_norm,
                     "shared_norm differs between layers");
  }
}

void check_attention(const Attention& a, Problems& problems) {
  problems.require_size(a.heads, "heads");
  problems.require_size(a.kv_heads, "kv_heads");
  problems.require_size(a.qk_width, "qk_width");
  problems.require_size(a.v_width, "v_width");
  problems.require(
      a.kv_heads <= 0 || a.heads % a.kv_heads == 0,
      fmt::format("heads ({}) is not a multiple of kv_heads ({})", a.heads, a.kv_heads));
  if (a.positions == Positions::rotary) {
    problems.require(a.rotary_dims > 0 && a.rotary_dims % 2 == 0 && a.rotary_dims <= a.qk_width,
                     fmt::format("rotary_dims is {}; expected an even number in [2, qk_width = {}]",
                                 a.rotary_dims, a.qk_width));
    problems.require(2 * static_cast<std::int64_t>(a.rotary_frequencies.size()) == a.rotary_dims,
                     fmt::format("rotary_frequencies has {} entries; expected rotary_dims/2 = {}",
                                 a.rotary_frequencies.size(), a.rotary_dims / 2));
    for (const double frequency : a.rotary_frequencies) {
      problems.require(std::isfinite(frequency) && frequency >= 0,
                       fmt::format("a rotary frequency is {}; expected a number >= 0", frequency));
    }
  } else {
    problems.require(a.rotary_dims == 0 && a.rotary_frequencies.empty(),
                     "rotary_dims and rotary_frequencies need positions 'rotary'");
  }
  if (a.positions == Positions::relative) {
    problems.require(a.relative_buckets > 0 && a.relative_buckets <= kFarthest,
                     fmt::format("relative_buckets is {}; expected 1 to 2^20", a.relative_buckets));
    problems.require(a.grid ? a.relative_max_distance == 0
                            : a.relative_max_distance > 0 && a.relative_max_distance <= kFarthest,
                     fmt::format("relative_max_distance is {}; expected {}",
                                 a.relative_max_distance, a.grid ? "0 with grid" : "1 to 2^20"));
  } else {
    problems.require(a.relative_buckets == 0 && a.relative_max_distance == 0,
                     "relative_buckets and relative_max_distance need positions 'relative'");
  }
  problems.require(std::isfinite(a.scale) && a.scale != 0,
                   "attention_scale is not a number other than 0");
  problems.require(a.window == 0 || (a.window > 1 && a.window < kLargest),
                   fmt::format("attention_window is {}; expected 0, or 2 to 2^31", a.window));
  problems.require(a.window == 0 || a.positions != Positions::relative,
                   "attention_window beside relative positions is not understood");
  problems.require(std::isfinite(a.temperature) && a.temperature >= 0 &&
                       a.temperature_length >= 0 && a.temperature_length < kLargest &&
                       (a.temperature > 0) == (a.temperature_length > 0) &&
                       (a.temperature == 0 || !a.cross),
                   "attention_temperature is a number above 0 beside an "
                   "attention_temperature_length above 0 and without cross, or both are 0");
  problems.require(std::isfinite(a.softcap) && a.softcap >= 0,
                   "attention_softcap is not a number >= 0");
  const bool plain = !a.has_qk_norm() && a.softcap == 0 &&
                     (a.positions == Positions::none || a.positions == Positions::rotary);
  problems.require(!a.sinks || plain,
                   "attention_sinks are understood where logits are scale * q.k, without norms, "
                   "caps or biases of distance");
}

// What stands on values, and on the stream behind a layer, where it is understood.
void check_values(const Architecture& a, const Layer& layer, Problems& problems) {
  const Attention& of = layer.attention;
  const bool plain = a.norm == Norm::rms && a.encoder_layers == 0 && !layer.norms_sum();
  problems.require(!of.value_norm || (plain && !of.has_latents() && !of.gate && !of.sinks &&
                                      !layer.layer_scale && !of.biases.v),
                   "value_norm needs norm 'rms', one stack that is a plain sum, and neither "
                   "latents, gates, sinks, layer scales nor a bias of v");
  problems.require(!of.keys_as_values || (of.value_norm && of.qk_norm == QkNorm::heads &&
                                          of.v_width == of.qk_width && !of.biases.k),
                   "keys_as_values needs value_norm, qk_norm 'heads', heads of q, k and v of one "
                   "width, and no bias of k");
  problems.require(!layer.stream_scale ||
                       (plain && layer.norms_output() && a.deep_inputs == 0 && !a.head_transform),
                   "stream_scale needs placement 'both' or 'behind', one stack, and neither "
                   "deep_inputs nor a transform in front of the head");
}

// Keys and values of an earlier layer, and tables of layers, where they are understood.
void check_shared(const Architecture& a, Problems& problems) {
  const bool listed = static_cast<std::int64_t>(a.pattern.size()) == a.layers;
  const auto fits = [&](std::int64_t kind) {
    return kind >= 0 && kind < static_cast<std::int64_t>(a.kinds.size());
  };
  if (!a.pattern.empty() && (!listed || !std::ranges::all_of(a.pattern, fits))) return;
  for (std::int64_t n = 0; n < (a.pattern.empty() ? 1 : a.layers); ++n) {
    const Attention& of = a.layer(n).attention;
    if (!of.shares_keys) continue;
    problems.require(a.keys_of(n) < n,
                     "shares_keys needs an earlier layer whose attention is the "
                     "same and has its own keys");
    problems.require(of.value_norm && of.qk_norm == QkNorm::heads,
                     "shares_keys needs value_norm and qk_norm 'heads'");
  }
}

void check_tables(const Architecture& a, Problems& problems) {
  problems.require(a.table_width >= 0 && a.table_width < kLargest,
                   "table_width is not a number from 0 to 2^31");
  problems.require(
      a.vector_row >= 0 && (a.vector_row == 0 || a.vector_row < a.vocabulary),
      fmt::format("vector_row is {}; expected a row of the token table", a.vector_row));
  problems.require(a.vector_row == 0 || (a.has_tables() && a.input_width > 0),
                   "vector_row needs table_width, and vectors among tokens");
  if (!a.has_tables()) return;
  const bool plain = std::ranges::all_of(a.kinds, [](const Layer& kind) {
    return kind.norms_output() && !kind.has_delta() && !kind.attention.has_latents();
  });
  problems.require(a.input == Input::tokens && a.encoder_layers == 0 && plain &&
                       !a.has_position_table() && a.token_types == 0 && a.dropped_token < 0 &&
                       a.deep_inputs == 0 && !a.head_transform,
                   "table_width needs input 'tokens', placement 'both' or 'behind', one stack, and "
                   "neither a position table, token types, a dropped token, deep_inputs, latents, "
                   "delta nets nor a transform in front of the head");
}

// What stands in place of attention, or what attention has besides, where it is understood.
void check_delta(const Architecture& a, const Layer& layer, Problems& problems) {
  const DeltaNet& d = layer.delta;
  const bool plain = a.norm == Norm::rms && layer.placement == Placement::pre && !layer.parallel &&
                     !layer.layer_scale && a.encoder_layers == 0;
  problems.require(
      !layer.attention.gate || (plain && !layer.attention.has_latents() && !layer.attention.sinks),
      "attention_gate needs rms norms before branches that follow one another, one "
      "stack, and neither latents, sinks nor layer scales");
  if (!layer.has_delta()) {
    problems.require(d == DeltaNet{}, "what is said of a delta net needs delta_key_heads above 0");
    return;
  }
  problems.require_size(d.key_heads, "delta_key_heads");
  problems.require_size(d.value_heads, "delta_value_heads");
  problems.require_size(d.key_width, "delta_key_width");
  problems.require_size(d.value_width, "delta_value_width");
  problems.require(d.kernel > 1 && d.kernel <= kFarthest,
                   fmt::format("delta_kernel is {}; expected 2 to 2^20", d.kernel));
  problems.require(d.value_heads % d.key_heads == 0,
                   fmt::format("delta_value_heads ({}) is not a multiple of delta_key_heads ({})",
                               d.value_heads, d.key_heads));
  problems.require(plain && a.causal,
                   "a delta net needs rms norms before branches that follow one another, causal, "
                   "one stack and no layer scales");
  problems.require(layer.attention == Attention{},
                   "a layer with a delta net has no attention: heads, kv_heads, qk_width, v_width "
                   "and attention_scale are 0, and positions 'none'");
}

void check_clamps(const FeedForward& f, Problems& problems) {
  problems.require(std::isfinite(f.limit) && f.limit >= 0, "ffn_limit is not a number >= 0");
  problems.require(std::isfinite(f.up_offset), "up_offset is not a number");
  problems.require(f.gated || f.limit == 0, "ffn_limit needs a gated feed-forward");
  problems.require(f.up_offset == 0 || f.limit > 0,
                   "up_offset without ffn_limit leaves up a scale that is not understood");
}

void check_latents(const Architecture& a, const Layer& layer, Problems& problems) {
  const Attention& of = layer.attention;
  problems.require(of.kv_latent >= 0 && of.q_latent >= 0, "a latent's width is negative");
  problems.require(of.has_latents() || of.q_latent == 0, "q_latent needs kv_latent");
  if (!of.has_latents()) return;
  problems.require_size(of.kv_latent, "kv_latent");
  problems.require(of.q_latent < kLargest, "q_latent is 2^31 or more");
  problems.require(a.encoder_layers == 0, "latents of an encoder-decoder are not understood");
  problems.require(of.heads == of.kv_heads, "latents need as many kv_heads as heads");
  problems.require(of.positions == Positions::rotary && of.rotary_dims < of.qk_width,
                   "latents need positions 'rotary' of some coordinates of a head, not of all");
  problems.require(!of.has_qk_norm(), "latents beside norms of q and k are not understood");
  problems.require(of.biases == Attention::Biases{} && of.softcap == 0 && !of.sinks,
                   "latents beside biases of attention, a cap or sinks are not understood");
  problems.require(a.norm == Norm::rms && layer.norms_input() && !layer.norms_output(),
                   "latents need rms norms before the branches alone");
}

void check_feed_forward(const Layer& layer, Problems& problems) {
  const FeedForward& f = layer.ffn;
  problems.require(f.gated || !f.biases.gate, "a gate bias needs gated");
  if (f.width != 0) {
    problems.require_size(f.width, "ffn_width");
    return;
  }
  const bool alone = layer.placement == Placement::pre || layer.placement == Placement::post;
  problems.require(
      alone && !layer.parallel && f == FeedForward{},
      "a layer without a feed-forward (ffn_width 0) needs placement 'pre' or 'post', and neither "
      "parallel nor any other setting of feed-forwards");
}

void check_layer_scale(const Architecture& a, const Layer& layer, Problems& problems) {
  if (!layer.layer_scale) return;
  problems.require(layer.placement == Placement::pre && !layer.parallel && a.encoder_layers == 0,
                   "layer_scale needs placement 'pre', one branch after another, and one stack");
  problems.require(layer.ffn.experts.count == 0 && !layer.attention.has_latents(),
                   "layer_scale beside experts or latents is not understood");
}

// What the streams of encoder and decoder may have.
void check_streams(const Architecture& a, Problems& problems) {
  problems.require(a.encoder_layers > 0 || a.encoder_vocabulary == 0,
                   "encoder_vocabulary needs encoder_layers");
  if (a.encoder_layers == 0) return;
  const Placement placement = a.kinds.front().placement;
  problems.require(a.input == Input::tokens && a.output == Output::tokens && a.causal &&
                       a.token_types == 0 && !a.head_transform &&
                       (placement == Placement::pre || placement == Placement::post),
                   "encoder_layers needs input and output 'tokens', causal, placement 'pre' or "
                   "'post', and neither token types nor a transform in front of the head");
  // T5's kind has two streams that move as one; here the tied table holds them together.
  const bool plain = placement == Placement::pre && a.norm == Norm::rms &&
                     !a.has_position_table() && !a.embedding_norm;
  problems.require(plain || (a.tied && a.norm_eps > 0 && !a.log_probabilities),
                   "encoder_layers beside layer norms, norms of a sum, a position table or an "
                   "embedding norm needs tied, norm_eps above 0 and logits that count");
  problems.require(a.encoder_vocabulary >= 0 && a.encoder_vocabulary < kLargest,
                   "encoder_vocabulary is not a number from 0 to 2^31");
  problems.require(a.encoder_vocabulary == 0 ||
                       (placement == Placement::post &&
                        a.position_table == PositionTable::sinusoidal && !a.embedding_norm),
                   "encoder_vocabulary is understood beside positions 'sinusoidal' and placement "
                   "'post', without an embedding norm");
}

// Encoder and decoder, and which layers share a table; where kinds and pattern fit.
void check_stacks(const Architecture& a, Problems& problems) {
  problems.require(a.encoder_layers >= 0 && (a.encoder_layers == 0 || a.encoder_layers < a.layers),
                   fmt::format("encoder_layers is {}; expected 0, or fewer than the {} layers",
                               a.encoder_layers, a.layers));
  check_streams(a, problems);
  const auto fits = [&](std::int64_t kind) {
    return kind >= 0 && kind < static_cast<std::int64_t>(a.kinds.size());
  };
  const bool listed = static_cast<std::int64_t>(a.pattern.size()) == a.layers;
  if (!a.pattern.empty() && (!listed || !std::ranges::all_of(a.pattern, fits))) return;
  const auto reads_encoder = [&](std::int64_t kind) {
    return a.kinds[static_cast<std::size_t>(kind)].attention.cross;
  };
  problems.require(a.encoder_layers == 0 || std::ranges::any_of(a.pattern, reads_encoder),
                   "encoder_layers needs a layer that reads the encoder (cross)");
  const bool ends_with_ffn =
      a.encoder_layers <= 0 || a.encoder_layers >= a.layers ||
      (a.layer(a.encoder_layers - 1).has_ffn() && a.layer(a.layers - 1).has_ffn());
  problems.require(ends_with_ffn || a.plain_stream(),
                   "an encoder-decoder that norms sums needs feed-forwards in its last layers");
  // Of layers that are all alike the first stands for the others.
  for (std::int64_t n = 0; n < (a.pattern.empty() ? 1 : a.layers); ++n) {
    const Attention& attention = a.layer(n).attention;
    problems.require(!attention.cross || (a.encoder_layers > 0 && n >= a.encoder_layers),
                     "cross needs an encoder, and is for the layers behind it");
    problems.require(!attention.cross || (attention.positions == Positions::none &&
                                          attention.window == 0 && !a.layer(n).parallel),
                     "cross with positions, attention_window or parallel is not understood");
    if (!attention.shares_table) continue;
    const std::int64_t owner = a.stack_of(n);
    const Attention& owned = a.layer(std::min(owner, n)).attention;
    Attention alike = attention;
    alike.shares_table = false;
    problems.require(owner < n && alike == owned && attention.positions == Positions::relative,
                     "shares_table needs relative positions, and a first layer of the stack that "
                     "has the table and the same attention");
    problems.require(!attention.has_qk_norm(), "shares_table with qk_norm is not understood");
  }
}

void check_input(const Architecture& a, Problems& problems) {
  if (a.input == Input::tokens) {
    problems.require_size(a.vocabulary, "vocabulary");
    problems.require(a.registers == 0, "registers need input 'vectors'");
    problems.require(!a.class_token,
                     "class_token needs input 'vectors'; with tokens it is a token");
    problems.require(
        a.input_width >= 0 && a.input_width < kLargest,
        fmt::format("input_width is {}; expected 0 or more, below 2^31", a.input_width));
    problems.require(!a.input_bias || a.input_width > 0, "input_bias needs an input_width");
    const bool plain = std::ranges::all_of(a.kinds, [](const Layer& kind) {
      return kind.norms_input() && !kind.attention.has_latents();
    });
    problems.require(
        a.input_width == 0 || a.encodes_vectors() ||
            (plain && !a.embedding_norm && !a.has_position_table() && a.token_types == 0 &&
             a.encoder_layers == 0),
        "vectors among tokens (input_width) need placement 'pre' or 'both', one stack, "
        "and neither latents, an embedding norm, a position table nor token types");
  } else {
    problems.require_size(a.input_width, "input_width");
    problems.require(!a.tied, "tied needs input 'tokens'");
    problems.require(a.token_types == 0, "token_types needs input 'tokens'");
    problems.require(!a.output.has(Output::tokens), "output 'tokens' needs input 'tokens'");
    problems.require(a.embedding_scale == 1, "embedding_scale needs input 'tokens'");
  }
  problems.require(
      a.deep_inputs >= 0 && a.deep_inputs <= a.layers,
      fmt::format("deep_inputs is {}; expected 0 to the {} layers", a.deep_inputs, a.layers));
  problems.require(
      a.deep_inputs == 0 || (a.input == Input::tokens && a.input_width > 0 && a.norm == Norm::rms),
      "deep_inputs need vectors among tokens (input_width) and norm 'rms'");
  problems.require(a.registers >= 0 && a.registers < kLargest,
                   fmt::format("registers is {}; expected 0 or more, below 2^31", a.registers));
  const bool unplaced = std::ranges::all_of(a.kinds, [](const Layer& kind) {
    const Attention& of = kind.attention;
    const bool places = of.positions == Positions::rotary && of.grid;
    return (of.positions == Positions::none || places) && of.window == 0;
  });
  problems.require(a.registers == 0 || (a.class_token && unplaced && !a.embedding_norm &&
                                        a.position_table != PositionTable::sinusoidal),
                   "registers need a class_token, positions 'learned', 'none' or of a grid, and "
                   "neither attention_window nor an embedding norm");
  problems.require(a.token_types >= 0 && a.token_types < kLargest,
                   "token_types is not a number from 0 to 2^31");
  problems.require(std::isfinite(a.embedding_scale) && a.embedding_scale > 0,
                   "embedding_scale is not a positive number");
  if (a.has_position_table()) problems.require_size(a.max_positions, "max_positions");
  problems.require(a.max_positions >= 0, "max_positions is negative");
  const bool fixed = a.position_table == PositionTable::sinusoidal;
  problems.require(fixed || (a.sinusoids == Sinusoids::pairs && a.first_position == 0),
                   "sinusoids and first_position need positions 'sinusoidal'");
  problems.require(a.first_position >= 0 && a.first_position < kLargest,
                   "first_position is not a number from 0 to 2^31");
  problems.require(a.sinusoids != Sinusoids::halves_inclusive || (a.width % 2 == 0 && a.width > 2),
                   "sinusoids 'halves_inclusive' need an even width above 2");
}

// Two models side by side share nothing; what the whole model is asked for must be true of both.
void check_beside(const Architecture& a, Problems& problems) {
  if (a.beside.empty()) return;
  const Architecture& b = a.beside.front();
  problems.require(a.beside.size() == 1 && b.beside.empty(), "more than one model beside");
  problems.require(a.norm == b.norm, "a model beside needs the same kind of norms");
  const auto allowed = [](const Architecture& of) {
    return of.encoder_layers == 0 && of.position_table != PositionTable::sinusoidal;
  };
  problems.require(allowed(a) && allowed(b),
                   "models side by side need one stack each, and no positions 'sinusoidal'");
  for (const auto& problem : problems_of(b)) problems.require(false, "beside: " + problem);
}

}  // namespace

std::vector<std::string> problems_of(const Architecture& a) {
  Problems problems;
  problems.require_size(a.width, "width");
  problems.require_size(a.layers, "layers");
  check_pattern(a, problems);
  for (const auto& layer : a.kinds) {
    if (!layer.has_delta()) check_attention(layer.attention, problems);
    check_delta(a, layer, problems);
    problems.require(
        !a.has_position_table() || layer.attention.positions == Positions::none ||
            (a.position_table == PositionTable::learned &&
             layer.attention.positions == Positions::relative),
        "a position table beside rotary or alibi positions, or a sinusoidal one beside relative "
        "positions, is not understood");
    check_feed_forward(layer, problems);
    check_latents(a, layer, problems);
    check_values(a, layer, problems);
    problems.require(layer.ffn.activation != Activation::tanh,
                     "activation 'tanh' is understood of a pooler only");
    const bool squared = layer.ffn.activation == Activation::relu_squared;
    problems.require(!squared || !(layer.ffn.gated || a.head_transform),
                     "activation 'relu_squared' beside gated or head_transform is not understood");
    check_clamps(layer.ffn, problems);
    check_layer_scale(a, layer, problems);
    problems.require(!layer.attention.sinks || !layer.norms_sum(),
                     "attention_sinks in layers that norm the sum are not understood");
    for (const auto& problem : problems_of_experts(layer, a.norm)) problems.require(false, problem);
    problems.require(!layer.parallel || layer.placement == Placement::pre,
                     "parallel needs placement 'pre'");
    problems.require(!layer.shared_norm || layer.parallel, "shared_norm needs parallel");
    problems.require(std::isfinite(layer.branch_scale) && layer.branch_scale != 0,
                     "branch_scale is not a number other than 0");
    problems.require(layer.branch_scale == 1 || layer.placement != Placement::post,
                     "branch_scale with placement 'post' is not understood");
    problems.require(!layer.norms_output() || (a.norm == Norm::rms && !a.embedding_norm),
                     "placements 'both' and 'behind' need norm 'rms' and no embedding norm");
    const Attention::Biases& biases = layer.attention.biases;
    const bool reads_with_bias =
        biases.q || biases.k || biases.v || layer.ffn.biases.gate || layer.ffn.biases.up;
    problems.require(layer.placement != Placement::behind || !reads_with_bias,
                     "placement 'behind' with biases of q, k, v, gate or up is not understood");
  }
  check_stacks(a, problems);
  check_shared(a, problems);
  check_tables(a, problems);
  for (const auto& problem : problems_of_encoder(a)) problems.require(false, problem);
  for (const auto& problem : problems_of_convolutions(a)) problems.require(false, problem);
  check_input(a, problems);
  problems.require(a.norm == Norm::layer || !a.norm_bias, "norm_bias needs norm 'layer'");
  problems.require(std::isfinite(a.norm_eps) && a.norm_eps >= 0, "norm_eps is not a number >= 0");
  for (const auto& problem : problems_of_outputs(a)) problems.require(false, problem);
  check_beside(a, problems);
  return problems.take();
}

void validate(const Architecture& a) {
  const auto problems = problems_of(a);
  if (problems.empty()) return;
  throw UsageError(fmt::format("[architecture] {}", fmt::join(problems, "\n[architecture] ")));
}

}  // namespace regauge
