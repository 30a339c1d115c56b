#include "transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

#include "activated.h"
#include "arch/transform_norm.h"
#include "check_batch.h"
#include "contacts.h"
#include "convolutions.h"
#include "delta_net.h"
#include "grid.h"
#include "layer_table.h"
#include "regauge/base/error.h"
#include "router.h"

namespace regauge::lab {
Transformer::Transformer(const Architecture& architecture, std::int64_t length, at::ScalarType type,
                         std::int64_t source_length)
    : architecture_(architecture),
      length_(length),
      positions_(
          (architecture.encodes_vectors() ? length : architecture.encoded_positions(length)) +
          architecture.leading_rows()),
      source_length_(source_length),
      type_(type) {
  const Architecture& a = architecture_;
  const std::int64_t n = positions_, own = n - a.registers;
  const std::int64_t encoded = a.encoded_positions(source_length), longest = std::max(own, encoded);
  const auto check_table = [&](std::int64_t positions, std::int64_t rows) {
    if (!a.has_position_table() || positions <= rows) return;
    throw UsageError(
        fmt::format("sequences of {} positions, and the model has a table of {}; use shorter ones",
                    positions, rows));
  };
  check_table(own, a.max_positions);
  check_table(encoded, a.source_positions());
  if (a.position_table == PositionTable::sinusoidal) {
    at::Tensor table = at::empty({longest, a.width}, at::kDouble);
    for (std::int64_t t = 0; t < longest; ++t) {
      for (std::int64_t i = 0; i < a.width; ++i) {
        table.mutable_data_ptr<double>()[t * a.width + i] = sinusoid(a, t, i);
      }
    }
    sinusoids_ = table.to(type);
  }
  for (const auto& kind : a.kinds) {
    tables_.push_back(tables(kind.attention, a.causal, n, a.leading_rows(), type));
    if (a.encoder_layers > 0) {
      encoder_tables_.push_back(tables(kind.attention, false, encoded, 0, type));
    }
  }
}

// One evaluation; x is [sequences, positions, width] throughout.
class Transformer::Pass {
 public:
  Pass(const Transformer& tables, const Tensors& parameters, Tensors* taps)
      : t_(tables), a_(tables.architecture_), p_(parameters), taps_(taps) {
    for (std::int64_t n = 0; n < a_.layers; ++n) {
      if (a_.layer(n).attention.shares_keys) shared_from_.insert(a_.keys_of(n));
    }
  }

  at::Tensor run(const Batch& batch) const {
    const at::Tensor encoded = a_.encoder_layers > 0 ? encode(batch) : at::Tensor();
    if (a_.has_contacts()) seen_ = seen_for_contacts(tokens_of(batch), t_.type_);
    at::Tensor x = layers(embed(batch), encoded, a_.encoder_layers, a_.layers, batch);
    if (a_.reads_one_position()) x = one_position(x);
    if (a_.plain_stream() && !a_.mean_norm) x = norm("head.norm", x);
    at::Tensor pooled;
    if (a_.pooler) {
      pooled = a_.pools_everywhere() ? x : one_position(x);
      pooled = activated(a_.pooler_activation, linear("head.pooler", pooled));
      tap("head.pooler.hidden", pooled);
    }
    std::vector<at::Tensor> outputs;
    for (const Output output : a_.output.list()) {
      switch (output) {
        case Output::tokens:
          outputs.push_back(tokens(x));
          break;
        case Output::classes:
          outputs.push_back(classes(a_.classes_pooled ? pooled : x));
          break;
        case Output::hidden:
          tap("head.input", x);
          outputs.push_back(x);
          break;
        case Output::pooled:
          outputs.push_back(a_.pools_everywhere() ? pooled : pooled.squeeze(1));
          break;
      }
    }
    const std::vector<Output> kinds = a_.output.list();
    if (a_.has_contacts()) {
      outputs.push_back(at::sigmoid(contacts_ + p_.at("head.contacts.bias")).flatten(1));
    }
    if (outputs.size() == 1) return outputs.front();
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const bool logits = kinds[i] == Output::tokens || kinds[i] == Output::classes;
      if (a_.log_probabilities && logits) outputs[i] = at::log_softmax(outputs[i], -1);
      outputs[i] = outputs[i].flatten(1);
    }
    return at::cat(outputs, 1);
  }

 private:
  at::Tensor encode(const Batch& batch) const {
    at::Tensor x;
    if (a_.encodes_vectors()) {
      x = view(batch.vectors).to(t_.type_);
      x = convolved(a_, p_, x.view({batch.sequences, batch.source_length, a_.input_width}));
    } else {
      const at::Tensor tokens = numbers(batch.source, {batch.sequences, batch.source_length});
      x = times(a_.embedding_scale, at::embedding(p_.at(a_.tokens_of(0)), tokens));
    }
    x = layers(embedding_normed(positioned(x, 0), 0), {}, 0, a_.encoder_layers, batch);
    return a_.plain_stream() ? norm("encoder.norm", x) : x;
  }

  // With the position table of a layer's stack, and behind the norm of its embedding.
  at::Tensor positioned(const at::Tensor& x, std::int64_t layer) const {
    if (!a_.has_position_table()) return x;
    const bool learned = a_.position_table == PositionTable::learned;
    const at::Tensor& table =
        learned ? p_.at(a_.embedding_of(layer) + std::string(".positions")) : t_.sinusoids_;
    return x + table.narrow(0, 0, x.size(1));
  }
  at::Tensor embedding_normed(const at::Tensor& x, std::int64_t layer) const {
    return a_.embedding_norm ? norm(a_.embedding_of(layer) + std::string(".norm"), x) : x;
  }

  // The stream x behind the layers [first, last).
  at::Tensor layers(at::Tensor x, const at::Tensor& encoded, std::int64_t first_layer,
                    std::int64_t last_layer, const Batch& batch) const {
    const at::Tensor embedded = x;
    for (std::int64_t pass = first_layer * a_.passes; pass < last_layer * a_.passes; ++pass) {
      const std::int64_t n = pass / a_.passes;
      const Layer& layer = a_.layer(n);
      const std::string at = fmt::format("layers.{}.", n);
      const auto attn = [&](const at::Tensor& y) {
        if (layer.has_delta()) return delta_net(layer.delta, a_.norm_eps, p_, at + "delta.", y);
        return attention(n, y, layer.attention.cross ? encoded : y);
      };
      const auto ffn = [&](const at::Tensor& y) { return feed_forward(layer.ffn, at + "ffn.", y); };
      const std::string first = at + "attn.norm", second = at + "ffn.norm";
      const auto scaled = [&](const at::Tensor& y) { return times(layer.branch_scale, y); };
      const auto written = [&](const char* branch, const at::Tensor& y) {
        return layer.layer_scale ? scaled(y * p_.at(at + branch + ".layer_scale.gain")) : scaled(y);
      };
      if (layer.norms_sum()) {
        x = norm(first, x + attn(x));
        if (layer.has_ffn()) x = norm(second, x + ffn(x));
      } else if (layer.norms_output()) {
        const bool both = layer.norms_input();
        x = x + scaled(norm(at + "attn.post_norm", attn(both ? norm(first, x) : x)));
        const bool alone = layer.ffn.experts.own_norms;
        const at::Tensor fed =
            alone ? apart(layer.ffn, at + "ffn.", x) : ffn(both ? norm(second, x) : x);
        x = x + scaled(norm(at + "ffn.post_norm", fed));
      } else if (layer.parallel) {
        const at::Tensor y = norm(first, x);
        x = x + scaled(attn(y)) + scaled(ffn(layer.shared_norm ? y : norm(second, x)));
      } else {
        x = x + written("attn", attn(a_.norms_attention(n) ? norm(first, x) : x));
        if (layer.has_ffn()) x = x + written("ffn", ffn(norm(second, x)));
      }
      if (a_.has_tables()) {
        const at::Tensor rows = batch.tokens.empty() ? at::Tensor() : tokens_of(batch);
        const at::Tensor read = of_table(a_, layer, p_, at + "table.", x, embedded, rows);
        tap(at + "table.hidden", read);
        x = x + norm(at + "table.post_norm", linear(at + "table.down", read));
      }
      if (layer.stream_scale) x = x * p_.at(at + "scale");
      if (n < a_.deep_inputs && batch.vectors.size() > 0) {
        const at::Tensor added = from_vectors(at + "input", batch, n + 1);
        x = x + (batch.tokens.empty() ? added : added * are_vectors(batch).to(t_.type_));
      }
    }
    return x;
  }

  at::Tensor one_position(const at::Tensor& x) const {
    return x.narrow(1, a_.reads_last_position() ? x.size(1) - 1 : 0, 1);
  }

  at::Tensor transformed(at::Tensor x) const {
    x = activated(a_.kinds.front().ffn.activation, linear("head.transform", x));
    tap("head.hidden", x);
    return norm(transform_norm(a_), x);
  }

  at::Tensor tokens(at::Tensor x) const {
    if (a_.head_transform) x = transformed(x);
    tap("head.input", x);
    return logits(x, a_.tied ? p_.at("embed.tokens") : p_.at("head.weight").t(), "head.bias");
  }

  at::Tensor classes(at::Tensor x) const {
    const at::Tensor all = x;
    if (a_.mean_norm) {
      const std::int64_t first = a_.leading_rows();
      x = norm("head.norm", x.narrow(1, first, x.size(1) - first).mean(1));
    } else if (a_.mean_position) {
      x = x.mean(1);
    } else if (!a_.classes_everywhere) {
      x = one_position(x).squeeze(1);
    }
    if (a_.transforms_classes()) x = transformed(x);
    tap("head.input", x);
    const std::string head = a_.classes_head();
    const at::Tensor first = logits(x, p_.at(head + ".weight").t(), head + ".bias");
    if (!a_.distillation_head) return first;
    const std::string other = "head.distillation";
    return at::cat({first, logits(all.select(1, 1), p_.at(other + ".weight").t(), other + ".bias")},
                   -1);
  }

  at::Tensor logits(const at::Tensor& x, const at::Tensor& weight, const std::string& bias) const {
    const at::Tensor logits = at::linear(x, weight, optional(a_.head_bias, bias));
    return capped(times(a_.logit_scale, logits), a_.logit_softcap);
  }

  static at::Tensor times(double factor, const at::Tensor& x) {
    return factor == 1 ? x : factor * x;
  }
  static at::Tensor capped(const at::Tensor& x, double cap) {
    return cap == 0 ? x : cap * at::tanh(x / cap);
  }

  void tap(const std::string& name, const at::Tensor& value) const {
    if (taps_ != nullptr) taps_->emplace(name, value);
  }

  // A parameter that the architecture may do without; vectors are stored as single rows.
  std::optional<at::Tensor> optional(bool present, const std::string& name) const {
    if (!present) return std::nullopt;
    return p_.at(name).squeeze(0);
  }

  static at::Tensor tokens_of(const Batch& batch) {
    return numbers(batch.tokens, {batch.sequences, batch.length});
  }
  static at::Tensor are_vectors(const Batch& batch) { return (tokens_of(batch) < 0).unsqueeze(-1); }
  // What a map makes of the index-th of the vectors at each position.
  at::Tensor from_vectors(const std::string& map, const Batch& batch, std::int64_t index) const {
    const at::Tensor all = view(batch.vectors).to(t_.type_);
    at::Tensor own = all.narrow(1, index * a_.input_width, a_.input_width);
    own = own.reshape({batch.sequences, batch.length, a_.input_width});
    if (index > 0) return linear(map, own);
    own = convolved(a_, p_, own);
    return linear(map, a_.input_norm ? norm("embed.input.norm", own) : own);
  }

  at::Tensor embed(const Batch& batch) const {
    const std::array shape{batch.sequences, batch.length};
    at::Tensor x;
    if (a_.input == Input::tokens) {
      x = at::embedding(p_.at("embed.tokens"), tokens_of(batch).clamp_min(0));
      x = times(a_.embedding_scale, x);
      if (a_.dropped_token >= 0) {
        const at::Tensor kept = (tokens_of(batch) != a_.dropped_token).to(t_.type_);
        x = x * (kept / kept.mean(1, true)).unsqueeze(-1);
      }
    }
    if (batch.vectors.size() > 0 && !a_.encodes_vectors()) {
      const at::Tensor made = from_vectors("embed.input", batch, 0);
      x = batch.tokens.empty() ? made : at::where(are_vectors(batch), made, x);
    }
    for (const char* name : {"embed.distillation_token", "embed.class_token"}) {
      if (!p_.contains(name)) continue;
      x = at::cat({p_.at(name).expand({batch.sequences, 1, a_.width}), x}, 1);
    }
    x = positioned(x, a_.encoder_layers);
    if (a_.registers > 0) {
      const at::Tensor rows =
          p_.at("embed.registers").expand({batch.sequences, a_.registers, a_.width});
      x = at::cat({x.narrow(1, 0, 1), rows, x.narrow(1, 1, x.size(1) - 1)}, 1);
    }
    if (a_.token_types > 0) {
      const at::Tensor& table = p_.at("embed.types");
      x = x + (batch.types.empty() ? table.narrow(0, 0, 1)
                                   : at::embedding(table, numbers(batch.types, shape)));
    }
    if (a_.has_positional()) x = x + positional(a_, p_, x);
    x = embedding_normed(x, a_.encoder_layers);
    return a_.maps_embedding() ? linear("embed.map", x) : x;
  }

  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    return at::linear(x, p_.at(name + ".weight").t(),
                      optional(p_.contains(name + ".bias"), name + ".bias"));
  }

  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    tap(name + ".input", x);
    const auto gain = optional(true, name + ".gain");
    const std::int64_t width = x.size(-1);
    if (a_.norm == Norm::rms) return at::rms_norm(x, {width}, gain, a_.norm_eps);
    return at::layer_norm(x, {width}, gain, optional(a_.norm_bias, name + ".bias"), a_.norm_eps);
  }

  at::Tensor feed_forward(const FeedForward& f, const std::string& at, const at::Tensor& x) const {
    const Experts& e = f.experts;
    if (e.count == 0) return neurons(f, at, x, {});
    at::Tensor sum = neurons(f, at, x, weights(e, at, x));
    if (e.shared_width == 0) return sum;
    const at::Tensor shared = neurons(f, at + "shared.", x, {});
    return sum + (e.shared_gate ? at::sigmoid(linear(at + "shared.router", x)) * shared : shared);
  }

  // Router, experts and the shared expert read x by norms of their own, and what they write is
  // normed before it is added.
  at::Tensor apart(const FeedForward& f, const std::string& at, const at::Tensor& x) const {
    const at::Tensor counts = weights(f.experts, at, norm(at + "router.norm", x));
    const at::Tensor sum = neurons(f, at, norm(at + "norm", x), counts);
    const at::Tensor shared = neurons(f, at + "shared.", norm(at + "shared.norm", x), {});
    return norm(at + "experts.post_norm", sum) + norm(at + "shared.post_norm", shared);
  }

  // What each expert counts.
  at::Tensor weights(const Experts& e, const std::string& at, const at::Tensor& x) const {
    const at::Tensor bias = e.selection_bias ? p_.at(at + "selection.bias") : at::Tensor();
    const at::Tensor all = expert_weights(e, times(e.router_scale, linear(at + "router", x)), bias);
    return e.scales ? all * p_.at(at + "experts.scale.gain") : all;
  }

  // `weights`: what each expert counts, or nothing.
  at::Tensor neurons(const FeedForward& f, const std::string& at, const at::Tensor& x,
                     const at::Tensor& weights) const {
    at::Tensor first = linear(at + (f.gated ? "gate" : "up"), x);
    if (f.limit > 0) first = first.clamp_max(f.limit);
    at::Tensor hidden = activated(f.activation, first);
    if (f.gated) {
      at::Tensor up = linear(at + "up", x);
      if (f.limit > 0) up = up.clamp(-f.limit, f.limit) + f.up_offset;
      hidden = hidden * up;
    }
    if (weights.defined()) hidden = hidden * weights.repeat_interleave(f.width, -1);
    tap(at + "hidden", hidden);
    if (!weights.defined()) return linear(at + "down", hidden);
    const at::Tensor sum = at::matmul(hidden, p_.at(at + "down.weight"));
    return f.biases.down ? sum + at::matmul(weights, p_.at(at + "down.bias")) : sum;
  }

  // [sequences, heads, positions, width] of what a map writes for `count` heads.
  static at::Tensor heads(const at::Tensor& x, std::int64_t count, std::int64_t width) {
    return x.view({x.size(0), x.size(1), count, width}).transpose(1, 2);
  }

  // q or k of `count` heads: normed, then rotated by its position.
  at::Tensor query_or_key(const Attention& a, const Tables& tables, const std::string& name,
                          std::int64_t count, const at::Tensor& input) const {
    at::Tensor x = linear(name, input);
    const std::string gain = name + "_norm.gain";
    if (a.qk_norm == QkNorm::joint) {
      x = at::rms_norm(x, {count * a.qk_width}, optional(true, gain), a_.norm_eps);
    }
    x = heads(x, count, a.qk_width);
    if (a.qk_norm == QkNorm::heads) {
      x = at::rms_norm(x, {a.qk_width}, optional(true, gain), a_.norm_eps);
    }
    if (a.positions != Positions::rotary) return x;
    const at::Tensor first = turned(tables, x.narrow(3, 0, a.rotary_dims));
    if (a.rotary_dims == a.qk_width) return first;
    return at::cat({first, x.narrow(3, a.rotary_dims, a.qk_width - a.rotary_dims)}, 3);
  }

  at::Tensor values(const Attention& a, const std::string& at, const at::Tensor& from) const {
    const at::Tensor v = heads(linear(at + a.value_map(), from), a.kv_heads, a.v_width);
    return a.value_norm ? at::rms_norm(v, {a.v_width}, std::nullopt, a_.norm_eps) : v;
  }

  // What a map reads: the vector behind its norm where there is one, or what is given.
  at::Tensor latent(std::int64_t width, const std::string& name, const at::Tensor& x) const {
    if (width == 0) return x;
    return at::rms_norm(linear(name, x), {width}, optional(true, name + ".norm.gain"), a_.norm_eps);
  }

  // Coordinates in pairs, rotated by their positions.
  static at::Tensor turned(const Tables& tables, const at::Tensor& x) {
    const at::Tensor pairs = x.unflatten(3, {x.size(3) / 2, 2}).contiguous();
    return at::view_as_real(at::view_as_complex(pairs) * tables.turns).flatten(3);
  }

  // q, k and v with latents. The rotating part of the keys is one for all heads.
  std::array<at::Tensor, 3> from_latents(const Attention& a, const Tables& tables,
                                         const std::string& at, const at::Tensor& x) const {
    const at::Tensor of_q = latent(a.q_latent, at + "q_latent", x);
    const at::Tensor of_kv = latent(a.kv_latent, at + "kv_latent", x);
    const at::Tensor q =
        turned(tables, heads(linear(at + "q_rotary", of_q), a.heads, a.rotary_dims));
    const at::Tensor k = turned(tables, heads(linear(at + "k_rotary", x), 1, a.rotary_dims));
    const auto plain = [&](const char* name, const at::Tensor& y, std::int64_t width) {
      return heads(linear(at + name, y), a.heads, width);
    };
    return {at::cat({q, plain("q", of_q, a.plain_width())}, 3),
            at::cat({k.expand({-1, a.heads, -1, -1}), plain("k", of_kv, a.plain_width())}, 3),
            plain("v", of_kv, a.v_width)};
  }

  // What the softmax gives: [sequences, heads, positions, positions].
  at::Tensor patterns(const Attention& a, const std::string& at, const at::Tensor& q,
                      const at::Tensor& k, const std::optional<at::Tensor>& mask,
                      bool causal) const {
    const at::Tensor keys = k.repeat_interleave(a.group(), 1);
    at::Tensor logits = capped(at::matmul(q, keys.transpose(2, 3)) * a.scale, a.softcap);
    if (mask) {
      logits = logits + *mask;
    } else if (causal) {
      const std::int64_t n = q.size(2);
      const at::Tensor later = at::ones({n, n}, at::kBool).triu(1);
      logits = logits.masked_fill(later, -std::numeric_limits<double>::infinity());
    }
    if (!a.sinks) return at::softmax(logits, 3);
    const at::Tensor sink = p_.at(at + "sinks").view({1, a.heads, 1, 1});
    const at::Tensor beside =
        sink.expand({logits.size(0), a.heads, logits.size(2), 1}).to(logits.dtype());
    return at::softmax(at::cat({logits, beside}, 3), 3).narrow(3, 0, logits.size(3));
  }

  // Queries from x; keys and values from `from`, which is x but for cross-attention.
  at::Tensor attention(std::int64_t layer, const at::Tensor& x, const at::Tensor& from) const {
    const Attention& a = a_.layer(layer).attention;
    const Tables& tables = t_.tables_of(layer);
    const std::string at = fmt::format("layers.{}.attn.", layer);
    auto [q, k, v] =
        a.has_latents()
            ? from_latents(a, tables, at, x)
            : std::array{query_or_key(a, tables, at + "q", a.heads, x),
                         a.shares_keys ? shared_.at(a_.keys_of(layer))[0]
                                       : query_or_key(a, tables, at + "k", a.kv_heads, from),
                         a.shares_keys ? shared_.at(a_.keys_of(layer))[1] : values(a, at, from)};
    if (shared_from_.contains(layer)) shared_[layer] = {k, v};
    if (tables.temperatures.defined()) q = q * tables.temperatures;
    std::optional<at::Tensor> mask;
    if (tables.mask.defined()) mask = tables.mask;
    if (a.positions == Positions::relative) {
      const std::int64_t n = x.size(1);
      const std::int64_t owner = a.shares_table ? a_.stack_of(layer) : layer;
      const at::Tensor bias =
          p_.at(fmt::format("layers.{}.attn.relative_bias", owner)).index_select(0, tables.buckets);
      mask = tables.mask + bias.view({n, n, a.heads}).permute({2, 0, 1});
    }
    const bool causal = a_.is_causal(layer) && !a.cross && !mask;
    at::Tensor weights;
    const bool by_hand = !a.forgets_common_logit() || a.contacts;
    if (taps_ != nullptr || by_hand) weights = patterns(a, at, q, k, mask, causal);
    if (taps_ != nullptr) tap(at + "patterns", weights.transpose(1, 2).flatten(2));
    if (a.contacts) {
      const at::Tensor own = contacts_of(weights, seen_, p_.at(at + "contacts"));
      contacts_ = contacts_.defined() ? contacts_ + own : own;
    }
    at::Tensor mixed = by_hand ? at::matmul(weights, v.repeat_interleave(a.group(), 1))
                               : at::scaled_dot_product_attention(q, k, v, mask, 0, causal, a.scale,
                                                                  a.heads != a.kv_heads);
    mixed = mixed.transpose(1, 2).flatten(2);
    if (a.gate) mixed = mixed * at::sigmoid(linear(at + "gate", x));
    tap(at + "heads", mixed);
    return linear(at + "o", mixed);
  }

  const Transformer& t_;
  const Architecture& a_;
  const Tensors& p_;
  Tensors* taps_;
  mutable at::Tensor seen_, contacts_;  // of this evaluation
  std::set<std::int64_t> shared_from_;  // layers whose keys and values others take
  mutable std::map<std::int64_t, std::array<at::Tensor, 2>> shared_;  // keys and values, by layer
};

at::Tensor Transformer::operator()(const Tensors& parameters, const Batch& batch,
                                   Tensors* taps) const {
  check_batch(architecture_, batch);
  if (batch.length != length_) {
    throw UsageError(
        fmt::format("a batch of length {} for a pass of length {}", batch.length, length_));
  }
  if (batch.source_length != source_length_) {
    throw UsageError(fmt::format("a source of length {} for a pass of {} positions",
                                 batch.source_length, source_length_));
  }
  return Pass(*this, parameters, taps).run(batch);
}

}  // namespace regauge::lab
