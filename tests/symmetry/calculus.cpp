#include "calculus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "calculus_convolutions.h"
#include "calculus_delta.h"
#include "calculus_experts.h"
#include "calculus_heads.h"
#include "calculus_layer_tables.h"
#include "calculus_positions.h"
#include "calculus_tables.h"
#include "calculus_wires.h"
#include "regauge/arch/parameters.h"

namespace regauge {
namespace {

using namespace calculus_system;

class Judge {
 public:
  Judge(const Architecture& architecture, std::uint64_t seed, Mistake mistake)
      : a_(architecture),
        d_(architecture.width),
        layer_norm_(architecture.norm == Norm::layer),
        mistake_(mistake) {
    seen_ = Dense::Identity(d_, d_);
    if (layer_norm_ && mistake_ != Mistake::centring_forgotten) {
      seen_ = row_basis(centring(d_)).transpose();
    }
    for (const auto& [name, value] : random_parameters(architecture, seed)) {
      const auto stage = stage_of(name, a_.repeats_layers());
      tensors_[name] = {value, system_.parameter(value.rows(), value.cols(), stage)};
    }
  }

  CalculusResult judge() {
    output(stacks());
    const auto solution = system_.solve();
    return {solution.dimension, solution.gap};
  }

 private:
  bool has(const std::string& name) const { return tensors_.contains(name); }
  const Tensor& tensor(const std::string& name) const { return tensors_.at(name); }
  bool forgets_length() const { return a_.norm_eps == 0; }

  // --- The graph ---------------------------------------------------------------------------------

  // Every stack has a stream of its own; that they move as one is for the equations to say.
  Wire stacks() {
    const auto stack = [&](std::int64_t first, std::int64_t last, const std::string& final_norm) {
      return a_.plain_stream() ? pre_norm(first, last, final_norm) : post_norm(first, last);
    };
    if (a_.encoder_layers > 0) {
      stack_ = "encoder.";
      const Tensor table = tensor("embed.tokens");
      if (mistake_ == Mistake::table_doubled) {
        tensors_.at("embed.tokens").change =
            system_.parameter(table.value.rows(), d_, System::local);
      }
      encoded_ = stack(0, a_.encoder_layers, "encoder.norm");
      tensors_.at("embed.tokens") = table;
      stack_.clear();
    }
    return stack(a_.encoder_layers, a_.layers, "head.norm");
  }

  Wire pre_norm(std::int64_t first, std::int64_t last, const std::string& final_norm) {
    Similarity stream = similarity();
    Dense hull;
    Wire bare;  // what the embedding norm writes, where the first attention reads it as it is
    if (a_.bare_first_attention) {
      bare = embedded();
      hull = bare.value;
    } else if (a_.embedding_norm) {
      const Wire normed = embedding_norm({stream.total, Forms(1, d_)}, seen_);
      read_by_norm({normed}, stream);
      hull = normed.value;
    } else if (!a_.convolutions.empty() && first == 0) {
      hull = heard(system_, a_, tensors_, stream, seen_, mistake_);
    } else {
      hull = embed({stream.total, Forms(1, d_)}, seen_, a_.class_token).value;
    }
    for (std::int64_t n = first; n < last; ++n) {
      const std::string layer = fmt::format("layers.{}.", n);
      const bool first_bare = n == 0 && a_.bare_first_attention;
      const Wire seen_by_attention = first_bare ? bare : read(n, hull, stream, layer + "attn.norm");
      const Wire attended = written(n, attention(seen_by_attention, layer), layer + "attn");
      if (!a_.layer(n).parallel) {
        read_by_norm(first_bare ? std::vector{bare, attended} : std::vector{attended}, stream);
        hull = with_row(hull, attended.value);
      }
      if (!a_.layer(n).has_ffn()) continue;
      const auto reading = [&](const char* name) { return read(n, hull, stream, layer + name); };
      const Wire fed = a_.layer(n).ffn.experts.own_norms
                           ? apart(reading, layer)
                           : written(n, feed_forward(reading(a_.layer(n).norm_before_ffn()), layer),
                                     layer + "ffn");
      if (a_.layer(n).parallel) {
        read_by_norm({attended, fed}, stream);
        hull = with_row(hull, attended.value);
      } else {
        read_by_norm({fed}, stream);
      }
      hull = with_row(hull, fed.value);
      if (a_.has_tables()) {
        const Wire raw = affine_wire(hull, Dense::Zero(1, d_), {stream.total, Forms(1, d_)});
        hull = with_row(hull, from_table(system_, a_, tensors_, n, raw, stream.total, mistake_));
      }
      if (a_.layer(n).stream_scale && mistake_ != Mistake::stream_scale_forgotten) {
        stream = scaled_stream(system_, stream, tensor(layer + "scale"), forgets_length());
      }
      for (const char* name : {"input.weight", "input.bias"}) {
        if (!has(layer + name) || mistake_ == Mistake::vectors_forgotten) continue;
        hull = added(system_, hull, tensor(layer + name), stream, seen_);
      }
    }
    return norm(hull, stream.turn, final_norm);
  }

  // The stream behind its norm, or as it is.
  Wire read(std::int64_t layer, const Dense& hull, const Similarity& stream,
            const std::string& name) {
    if (a_.layer(layer).norms_input()) return norm(hull, stream.turn, name);
    return affine_wire(hull, Dense::Zero(1, d_), {stream.total, Forms(1, d_)});
  }

  Wire written(std::int64_t layer, const Wire& branch, const std::string& name) {
    if (a_.layer(layer).norms_output()) return norm_of_sum({branch}, name + ".post_norm");
    if (!a_.layer(layer).layer_scale) return branch;
    const Tensor& gain = tensor(name + ".layer_scale.gain");
    if (mistake_ == Mistake::layer_scale_forgotten) system_.require(gain.change);
    return times_gain(branch, gain);
  }

  // The embedded input, of which everything counts.
  Wire embedded() {
    const AffineChange any{system_.wire(d_, d_, System::shared),
                           system_.wire(1, d_, System::shared)};
    const Dense everything = Dense::Identity(d_, d_);
    return a_.embedding_norm ? embedding_norm(any, everything)
                             : embed(any, everything, a_.class_token);
  }

  Wire post_norm(std::int64_t first, std::int64_t last) {
    Wire x = embedded();
    const std::int64_t passes = mistake_ == Mistake::passes_forgotten ? 1 : a_.passes;
    for (std::int64_t i = first * passes; i < last * passes; ++i) {
      const std::int64_t n = i / passes;
      const std::string layer = fmt::format("layers.{}.", n);
      x = norm_of_sum({x, attention(x, layer)}, layer + "attn.norm");
      if (a_.layer(n).has_ffn()) x = norm_of_sum({x, feed_forward(x, layer)}, layer + "ffn.norm");
    }
    return x;
  }

  Wire norm_of_sum(const std::vector<Wire>& wires, const std::string& name) {
    const Similarity change = similarity();
    read_by_norm(wires, change);
    Dense hull(0, d_);
    for (const auto& wire : wires) hull = with_row(hull, wire.value);
    return norm(hull, change.turn, name);
  }

  // --- Rules: input and norms -------------------------------------------------------------------

  // The sum of tables changes by an affine map, each table by its linear part and a constant of its
  // own; the constants add up. Learned rows in front change by the same map. Only `seen` counts.
  Wire embed(const AffineChange& change, const Dense& seen, bool class_token) {
    const auto follow = [&](const Tensor& rows, const Forms& constant) {
      for (Index i = 0; i < rows.value.rows(); ++i) {
        system_.require((rows.change.row(i) - rows.value.row(i) * change.linear - constant) * seen);
      }
    };
    Dense directions(0, d_), base = Dense::Zero(1, d_);
    Forms constants(1, d_);
    for (const auto& table : summed_tables(a_, tensors_, stack_)) {
      const Forms constant = system_.wire(1, d_, System::shared);
      follow(table, constant);
      constants += constant;
      directions = with_row(directions, table.value.rowwise() - table.value.row(0));
      base += table.value.row(0);
    }
    system_.require((constants - change.constant) * seen);
    const bool vectors = has("embed.input.weight") && mistake_ != Mistake::vectors_forgotten;
    if (vectors) {
      follow(tensor("embed.input.weight"), Forms(1, d_));
      directions = with_row(directions, tensor("embed.input.weight").value);
    }
    if (class_token || (vectors && a_.input == Input::tokens)) {
      const Tensor rows = rows_alone(a_, tensors_, mistake_ != Mistake::registers_forgotten);
      follow(rows, change.constant);
      directions = with_row(directions, rows.value.rowwise() - base.row(0));
    }
    return affine_wire(directions, base, change);
  }

  // The embedding goes straight into a norm and nowhere else; what leaves it, n, changes by an
  // affine map. Vectors fill their space, so the norm allows them a similarity. Class token and
  // tokens are finitely many: a row, or sum of rows, may change in any way that makes its own n
  // follow.
  Wire embedding_norm(const AffineChange& change, const Dense& seen) {
    std::vector<Tensor> rows;
    Dense directions(0, d_), base;
    if (a_.input == Input::vectors) {
      const Similarity inner = similarity();
      const Dense hull = a_.has_positional()
                             ? heard(system_, a_, tensors_, inner, seen_, mistake_)
                             : embed({inner.total, Forms(1, d_)}, seen_, false).value;
      const Wire n = norm(hull, inner.turn, stack_ + "embed.norm");
      const Forms excess = n.change - n.value * change.linear;
      system_.require(excess.top(n.base()) * seen);
      system_.require((excess.row(n.base()) - change.constant) * seen);
      directions = n.value.topRows(n.base());
      base = n.value.row(n.base());
      if (a_.class_token) rows = {leading_rows(a_, tensors_, false)};
    } else {
      rows = sums_of_rows(summed_tables(a_, tensors_, stack_));
    }
    for (const auto& row : rows) {
      const std::string norm = stack_ + "embed.norm";
      const Dense centre =
          a_.maps_embedding() ? centring(a_.token_width()) : Dense(seen_ * seen_.transpose());
      Wire n = norm_of_row(row, tensor(norm + ".gain"), centre, a_.norm_eps);
      if (has(norm + ".bias")) add_to_base(n, tensor(norm + ".bias"));
      if (a_.maps_embedding()) n = linear(n, "embed.map", 0, d_);
      system_.require((n.change - n.value * change.linear - change.constant) * seen);
      if (base.size() == 0) base = n.value;
      directions = with_row(directions, n.value - base);
    }
    return affine_wire(directions, base, change);
  }

  Similarity similarity() {
    const Index n = seen_.cols();
    const Forms turn = seen_ * system_.skew(n, System::shared) * seen_.transpose();
    if (!forgets_length()) return {turn, turn};
    return {turn, turn + diagonal(same(system_.wire(1, 1, System::shared), d_))};
  }

  // A norm sees the sum of the wires and allows a similarity of it, up to what it does not see.
  void read_by_norm(const std::vector<Wire>& wires, const Similarity& change) {
    Forms base(1, d_);
    for (const auto& wire : wires) {
      const Forms excess = wire.change - wire.value * change.total;
      system_.require(excess.top(wire.base()) * seen_);
      base += excess.row(wire.base());
    }
    system_.require(base * seen_);
  }

  // n = x^ gain + bias, x^ of length one in the seen hull of the norm's input, dx^ = x^ turn.
  Wire norm(const Dense& hull, const Forms& turn, const std::string& name) {
    Wire out = turned_units(hull, seen_, turn, tensor(name + ".gain"));
    if (has(name + ".bias")) add_to_base(out, tensor(name + ".bias"));
    return out;
  }

  Wire linear(const Wire& x, const std::string& name, Index first, Index count) const {
    return calculus_system::linear(tensors_, x, name, first, count);
  }

  // --- Rules: attention --------------------------------------------------------------------------

  Wire attention(const Wire& x, const std::string& layer) {
    const std::string name = layer + "attn.";
    if (const Layer& shape = a_.layer(layer_of(layer)); shape.has_delta()) {
      const bool rigid = mistake_ == Mistake::kernel_forgotten;
      return delta_net(system_, shape.delta, tensors_, layer + "delta.", x, rigid);
    }
    const Attention& a = a_.layer(layer_of(layer)).attention;
    if (a.has_latents()) return latent_attention(a, x, name);
    const Wire& source = a.cross ? encoded_ : x;
    const Index group = a.group(), dk = a.qk_width, dv = a.v_width;
    rotations_ = rotations(a);
    if (mistake_ == Mistake::rotary_forgotten) rotations_ = {{Dense::Identity(dk, dk), true}};
    const Tensor& o = tensor(name + "o.weight");
    Wire out{Dense(0, d_), Forms(0, d_)};
    Wire constant{Dense::Zero(1, d_), Forms(1, d_)};
    const HeadWires of(system_, a, tensors_, forgets_length());
    const std::vector<Wire> queries = of.queries_or_keys(x, name + "q", a.heads);
    const std::int64_t owner = a_.keys_of(layer_of(layer));
    auto& [keys, all_values] = keys_and_values_[owner];
    if (!a.shares_keys) {
      keys = of.queries_or_keys(source, name + "k", a.kv_heads);
      all_values = of.values(source, name, mistake_ == Mistake::value_norm_forgotten);
    } else if (mistake_ == Mistake::shared_keys_apart) {
      for (Wire& key : keys) key = with_a_change_of_its_own(system_, key);
    }
    for (Index kv = 0; kv < a.kv_heads; ++kv) {
      Wire v = all_values[static_cast<std::size_t>(kv)];
      if (a.gate && mistake_ != Mistake::gate_forgotten) v = gated(system_, v);
      for (Index head = kv * group; head < (kv + 1) * group; ++head) {
        logits(a, queries[static_cast<std::size_t>(head)], keys[static_cast<std::size_t>(kv)]);
        gather(v, o, head * dv, a.sinks && mistake_ != Mistake::sink_forgotten, out, constant);
      }
    }
    if (a.positions == Positions::relative) {
      require_relative_bias(system_, a_, tensors_, layer_of(layer));
    }
    if (a.sinks) system_.require(tensor(name + "sinks").change);
    if (a.contacts) system_.require(tensor(name + "contacts").change);
    if (a.gate) system_.require(linear(x, name + "gate", 0, a.heads * dv).change);
    out = {with_row(out.value, constant.value), stack(out.change, constant.change)};
    if (has(name + "o.bias")) add_to_base(out, tensor(name + "o.bias"));
    return out;
  }

  // A latent may turn and (eps = 0) scale, as any vector in front of an rms norm; what reads it
  // sees its direction times the gain.
  Wire latent(const Wire& x, const std::string& name, Index width) {
    if (width == 0) return x;
    const Wire c = linear(x, name, 0, width);
    return mistake_ == Mistake::latent_norm_forgotten
               ? affine(system_, c)
               : normed(system_, c, tensor(name + ".norm.gain"), forgets_length());
  }

  // Logits are two sums. The rotating one has one key for all heads, so that all queries must agree
  // on how it changes; the other is as without positions. They are different functions of the
  // distance, so that nothing passes between them.
  Wire latent_attention(const Attention& a, const Wire& x, const std::string& name) {
    const Index rotating = a.rotary_dims, plain = a.plain_width(), dv = a.v_width;
    const Wire of_q = latent(x, name + "q_latent", a.q_latent);
    const Wire of_kv = latent(x, name + "kv_latent", a.kv_latent);
    Attention part = a;
    part.qk_width = rotating;
    const std::vector<Rotation> turning = rotations(part);
    const std::vector<Rotation> still = {{Dense::Identity(plain, plain), true}};
    const Tensor& o = tensor(name + "o.weight");
    const Wire shared = affine(system_, linear(x, name + "k_rotary", 0, rotating));
    Wire out{Dense(0, d_), Forms(0, d_)};
    Wire constant{Dense::Zero(1, d_), Forms(1, d_)};
    for (Index head = 0; head < a.heads; ++head) {
      rotations_ = turning;
      logits(a, affine(system_, linear(of_q, name + "q_rotary", head * rotating, rotating)),
             shared);
      rotations_ = still;
      logits(a, affine(system_, linear(of_q, name + "q", head * plain, plain)),
             affine(system_, linear(of_kv, name + "k", head * plain, plain)));
      gather(affine(system_, linear(of_kv, name + "v", head * dv, dv)), o, head * dv, false, out,
             constant);
    }
    return {with_row(out.value, constant.value), stack(out.change, constant.change)};
  }

  // q R_t k^T changes by nothing that depends on the key or its distance t. R_t is a sum of fixed
  // matrices times independent functions of t; only the one that goes with the constant function
  // lets a constant over keys pass, and no cap or sink does.
  void logits(const Attention& a, const Wire& q, const Wire& k) {
    for (const auto& [matrix, constant_in_t] : rotations_) {
      const Forms change =
          q.change * (matrix * k.value.transpose()) + (q.value * matrix) * k.change.transposed();
      const bool all =
          !constant_in_t || !a.forgets_common_logit() || mistake_ == Mistake::key_shift_forgotten;
      system_.require(all ? change : change.left(k.base()));
    }
  }

  // --- Rules: feed-forward -----------------------------------------------------------------------

  Wire feed_forward(const Wire& x, const std::string& layer) {
    const FeedForward& f = a_.layer(layer_of(layer)).ffn;
    const Experts& e = f.experts;
    if (e.count == 0) return neurons(f, x, layer + "ffn.", f.neurons());
    const Wire out = experts(f, x, x, layer + "ffn.");
    if (e.shared_width == 0) return out;
    if (e.shared_gate) system_.require(linear(x, layer + "ffn.shared.router", 0, 1).change);
    const Wire shared = neurons(f, x, layer + "ffn.shared.", e.shared_width);
    return beside(out, shared);
  }

  // Each reads the stream by a norm of its own, and what it writes is normed in front of the sum.
  template <class Reading>
  Wire apart(const Reading& reading, const std::string& layer) {
    const FeedForward& f = a_.layer(layer_of(layer)).ffn;
    const std::string name = layer + "ffn.";
    const Wire sum = experts(f, reading("ffn.norm"), reading("ffn.router.norm"), name);
    const Wire shared =
        neurons(f, reading("ffn.shared.norm"), name + "shared.", f.experts.shared_width);
    return norm_of_sum({norm_of_sum({sum}, name + "experts.post_norm"),
                        norm_of_sum({shared}, name + "shared.post_norm")},
                       name + "post_norm");
  }

  Wire experts(const FeedForward& f, const Wire& x, const Wire& by, const std::string& name) {
    const Wire out = neurons(f, x, name, f.neurons());
    const Wire logits = linear(by, name + "router", 0, f.experts.count);
    require_routing(system_, f.experts, logits, tensors_, name, mistake_);
    if (!f.biases.down) return out;
    return with_expert_biases(out, tensor(name + "down.bias"), f.experts.renormalised);
  }

  Wire neurons(const FeedForward& f, const Wire& x, const std::string& name, Index m) {
    const Wire up = linear(x, name + "up", 0, m);
    const bool clamped = f.limit > 0 && mistake_ != Mistake::clamp_forgotten;
    const Wire gate = f.gated ? linear(x, name + "gate", 0, m) : Wire();
    Wire hidden = fired(system_, f, gate, up, clamped);
    const std::string scale = name + "experts.scale.gain";
    if (has(scale)) hidden = times_factors(hidden, tensor(scale), f.width);
    if (f.experts.count > 0 && f.biases.down)
      return product(hidden, tensor(name + "down.weight"), 0, d_);
    return linear(hidden, name + "down", 0, d_);
  }

  // --- Rules: output -----------------------------------------------------------------------------

  // No output changes.
  void output(const Wire& x) {
    if (a_.output.has(Output::hidden)) system_.require(x.change);
    if (a_.distillation_head) system_.require(linear(x, "head.distillation", 0, a_.classes).change);
    if (a_.has_contacts()) system_.require(tensor("head.contacts.bias").change);
    Wire pooled;
    if (a_.pooler)
      pooled = activated(system_, a_.pooler_activation, linear(x, "head.pooler", 0, d_));
    if (a_.output.has(Output::pooled)) system_.require(pooled.change);
    if (a_.output.has(Output::classes) && !a_.transforms_classes()) {
      const char* head = a_.output.has(Output::tokens) ? "head.classes" : "head";
      require_logits(linear(a_.classes_pooled ? pooled : x, head, 0, a_.classes));
    }
    if (!a_.output.has(Output::tokens) && !a_.transforms_classes()) return;
    if (!a_.head_transform) return token_logits(x);
    const Wire hidden = activated(system_, a_.kinds[0].ffn.activation,
                                  linear(x, "head.transform", 0, a_.head_width()));
    const std::string name = a_.plain_stream() ? "head.transform.norm" : "head.norm";
    if (!a_.maps_embedding()) return token_logits(norm_of_sum({hidden}, name));
    token_logits(layer_normed(system_, hidden, tensor(name + ".gain"), tensor(name + ".bias"),
                              forgets_length()));
  }

  void token_logits(const Wire& x) {
    Wire logits;
    if (!a_.tied) {
      logits = linear(x, "head", 0, a_.outputs());
    } else {
      Tensor head = tensor("embed.tokens");
      if (mistake_ == Mistake::tie_forgotten) {
        head.change = system_.parameter(head.value.rows(), head.value.cols(), System::local);
      }
      logits = {x.value * head.value.transpose(),
                x.change * head.value.transpose() + x.value * head.change.transposed()};
      if (has("head.bias")) add_to_base(logits, tensor("head.bias"));
    }
    require_logits(logits);
  }

  // Log-probabilities: nothing changes but by a number common to all logits.
  void require_logits(const Wire& logits) {
    require_scores(system_, logits.change, a_.forgets_common_logit(), System::shared);
  }

  const Architecture& a_;
  const Index d_;
  const bool layer_norm_;
  const Mistake mistake_;
  System system_;
  std::map<std::string, Tensor> tensors_;
  std::vector<Rotation> rotations_;
  std::string stack_;  // "encoder." while it is the encoder's turn
  Wire encoded_;       // what the encoder has written
  std::map<std::int64_t, std::pair<std::vector<Wire>, std::vector<Wire>>> keys_and_values_;
  Dense seen_;  // D x n, orthonormal columns: what a norm sees of its input is x seen
};

}  // namespace

CalculusResult calculus(const Architecture& architecture, std::uint64_t seed, Mistake mistake) {
  return Judge(architecture, seed, mistake).judge();
}

}  // namespace regauge
