#include "forward.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>

#include "forward_convolutions.h"
#include "forward_delta.h"
#include "forward_grid.h"

namespace regauge::testing {
namespace {

using Mat = Matrix<double>;

class Forward {
 public:
  Forward(const Architecture& architecture, const Parameters<double>& parameters)
      : a_(architecture), p_(parameters) {}

  Mat run(const Mat& input, const Mat& source) const {
    Mat encoded;
    input_ = input;
    keys_and_values_.clear();
    contacts_ = Mat::Zero(input.rows(), input.rows());
    if (a_.encoder_layers > 0) {
      encoded = layers(embed(source, "encoder."), source, {}, 0, a_.encoder_layers);
      if (a_.plain_stream()) encoded = norm("encoder.norm", encoded);
    }
    Mat x = layers(embed(input, ""), input, encoded, a_.encoder_layers, a_.layers);
    if (a_.plain_stream() && !a_.mean_norm) x = norm("head.norm", x);
    std::vector<Mat> outputs;
    const bool several = a_.output.list().size() > 1;
    if (a_.output.has(Output::tokens)) outputs.push_back(counted(token_logits(x), several));
    Mat pooled;
    if (a_.pooler) {
      pooled = a_.classes_pooled && a_.classes_everywhere ? x : chosen(x);
      pooled = activated(a_.pooler_activation, linear("head.pooler", pooled));
    }
    if (a_.output.has(Output::classes)) {
      Mat read = a_.classes_everywhere ? x : chosen(x);
      if (a_.mean_position) {
        const Eigen::Index first = a_.mean_norm ? a_.leading_rows() : 0;
        read = x.bottomRows(x.rows() - first).colwise().mean();
        if (a_.mean_norm) read = norm("head.norm", read);
      }
      if (a_.head_transform && !a_.output.has(Output::tokens)) read = transformed(read);
      const char* head = a_.output.has(Output::tokens) ? "head.classes" : "head";
      outputs.push_back(counted(linear(head, a_.classes_pooled ? pooled : read), several));
    }
    if (a_.distillation_head) outputs.push_back(linear("head.distillation", x.row(1)));
    if (a_.output.has(Output::hidden)) outputs.push_back(x);
    if (a_.output.has(Output::pooled)) outputs.push_back(pooled);
    if (a_.has_contacts())
      outputs.push_back(contacts(contacts_, p_.at("head.contacts.bias")(0, 0)));
    if (outputs.size() == 1) return outputs.front();
    // One after another in a row.
    Mat all(1, 0);
    for (const Mat& output : outputs) {
      Mat longer(1, all.cols() + output.size());
      longer << all, Mat(output.reshaped<Eigen::RowMajor>().transpose());
      all = longer;
    }
    return all;
  }

 private:
  Mat chosen(const Mat& x) const { return x.row(a_.causal || a_.last_position ? x.rows() - 1 : 0); }

  Mat transformed(const Mat& x) const {
    return norm(a_.plain_stream() ? "head.transform.norm" : "head.norm",
                activated(a_.kinds[0].ffn.activation, linear("head.transform", x)));
  }

  Mat token_logits(Mat x) const {
    if (a_.head_transform) x = transformed(x);
    if (!a_.tied) return linear("head", x);
    Mat y = x * p_.at("embed.tokens").transpose();
    if (a_.head_bias) y.rowwise() += p_.at("head.bias").row(0);
    return y;
  }

  // Logits; of several outputs as log-probabilities, where these count.
  Mat counted(const Mat& logits, bool several) const {
    Mat y =
        logits.unaryExpr([&](double v) { return capped(a_.logit_scale * v, a_.logit_softcap); });
    for (Eigen::Index t = 0; several && a_.log_probabilities && t < y.rows(); ++t) {
      y.row(t).array() -= std::log(y.row(t).array().exp().sum());
    }
    return y;
  }

  Mat layers(Mat x, const Mat& input, const Mat& encoded, std::int64_t first,
             std::int64_t last) const {
    const Mat embedded = x;
    for (std::int64_t pass = first * a_.passes; pass < last * a_.passes; ++pass) {
      const std::int64_t n = pass / a_.passes;
      const std::string layer = "layers." + std::to_string(n) + ".";
      const auto attn = [&](const Mat& y) {
        if (a_.layer(n).has_delta()) {
          return delta_net(a_.layer(n).delta, a_.norm_eps, p_, layer + "delta.", y);
        }
        return attention(layer + "attn.", y, a_.layer(n).attention.cross ? encoded : y);
      };
      const auto ffn = [&](const Mat& y) { return feed_forward(layer + "ffn.", y); };
      const std::string before = layer + "attn.norm", after = layer + "ffn.norm";
      const double scale = a_.layer(n).branch_scale;
      const auto factors = [&](const std::string& branch, const Mat& y) -> Mat {
        if (!a_.layer(n).layer_scale) return y;
        return y * p_.at(branch + ".layer_scale.gain").row(0).asDiagonal();
      };
      if (!a_.plain_stream()) {
        x = norm(before, x + attn(x));
        if (a_.layer(n).has_ffn()) x = norm(after, x + ffn(x));
      } else if (a_.layer(n).placement == Placement::both) {
        x = (x + scale * norm(layer + "attn.post_norm", attn(norm(before, x)))).eval();
        const Mat fed = a_.layer(n).ffn.experts.own_norms ? ffn(x) : ffn(norm(after, x));
        x = (x + scale * norm(layer + "ffn.post_norm", fed)).eval();
      } else if (a_.layer(n).placement == Placement::behind) {
        x = (x + scale * norm(layer + "attn.post_norm", attn(x))).eval();
        x = (x + scale * norm(layer + "ffn.post_norm", ffn(x))).eval();
      } else if (a_.layer(n).parallel) {
        const std::string other = a_.layer(n).shared_norm ? before : after;
        x = (x + scale * (attn(norm(before, x)) + ffn(norm(other, x)))).eval();
      } else {
        const bool bare = n == 0 && a_.bare_first_attention;
        x = (x + scale * factors(layer + "attn", attn(bare ? x : norm(before, x)))).eval();
        if (a_.layer(n).has_ffn()) {
          x = (x + scale * factors(layer + "ffn", ffn(norm(after, x)))).eval();
        }
      }
      if (a_.table_width > 0) x = (x + from_table(n, x, embedded, input)).eval();
      if (a_.layer(n).stream_scale) x *= p_.at(layer + "scale")(0, 0);
      for (Eigen::Index t = 0; n < a_.deep_inputs && t < x.rows(); ++t) {
        if (input(t, 0) >= 0) continue;
        const Mat vector = input.row(t).segment(2 + (n + 1) * a_.input_width, a_.input_width);
        x.row(t) += linear(layer + "input", vector);
      }
    }
    return x;
  }

  // What a layer's table and the row that was embedded make of each position, gated by the stream.
  Mat from_table(std::int64_t n, const Mat& x, const Mat& embedded, const Mat& input) const {
    const std::string at = "layers." + std::to_string(n) + ".table.";
    const auto r = static_cast<double>(a_.table_width);
    Mat own = linear(at + "map", embedded) / std::sqrt(static_cast<double>(a_.width));
    for (Eigen::Index t = 0; t < own.rows(); ++t) {
      own.row(t) /= std::sqrt(own.row(t).squaredNorm() / r + a_.norm_eps);
      own.row(t).array() *= p_.at("embed.tables.norm.gain").row(0).array();
      const auto row = input(t, 0) < 0 ? a_.vector_row : static_cast<std::int64_t>(input(t, 0));
      own.row(t) += std::sqrt(r) * p_.at(at + "tokens").row(row);
    }
    const Mat gate = activated(a_.layer(n).ffn.activation, linear(at + "gate", x));
    return norm(at + "post_norm", linear(at + "down", gate.cwiseProduct(own) / std::sqrt(2.0)));
  }

  static double capped(double x, double cap) { return cap == 0 ? x : cap * std::tanh(x / cap); }

  // `stack`: "encoder.", or nothing.
  Mat embed(const Mat& input, const std::string& stack) const {
    Mat x;
    if (a_.encodes_vectors() && !stack.empty()) {
      x = convolved(a_, p_, input);
    } else if (a_.input == Input::tokens) {
      x.resize(input.rows(), a_.token_width());
      const auto own = p_.find(stack + "embed.tokens");
      const Mat& table = own != p_.end() ? own->second : p_.at("embed.tokens");
      for (Eigen::Index t = 0; t < input.rows(); ++t) {
        const auto token = static_cast<Eigen::Index>(input(t, 0));
        x.row(t) = token < 0 ? linear("embed.input", input.row(t).segment(2, a_.input_width))
                             : Mat(a_.embedding_scale * table.row(token));
      }
    } else {
      x = convolved(a_, p_, input);
      x = linear("embed.input", a_.input_norm ? norm("embed.input.norm", x) : x);
    }
    if (a_.dropped_token >= 0) drop(a_.dropped_token, input, x);
    for (const char* name : {"embed.distillation_token", "embed.class_token"}) {
      if (!p_.contains(name)) continue;
      Mat longer(x.rows() + 1, x.cols());
      longer << p_.at(name), x;
      x = longer;
    }
    if (a_.position_table == PositionTable::learned)
      x += p_.at(stack + "embed.positions").topRows(x.rows());
    if (a_.position_table == PositionTable::sinusoidal) {
      for (Eigen::Index t = 0; t < x.rows(); ++t) {
        for (Eigen::Index i = 0; i < a_.width; ++i) x(t, i) += sinusoid(a_, t, i);
      }
    }
    if (a_.registers > 0) {
      Mat longer(x.rows() + a_.registers, x.cols());
      longer << x.topRows(1), p_.at("embed.registers"), x.bottomRows(x.rows() - 1);
      x = longer;
    }
    for (Eigen::Index t = 0; a_.token_types > 0 && t < x.rows(); ++t) {
      const double type = input.cols() > 1 ? input(t, 1) : 0;
      x.row(t) += p_.at("embed.types").row(static_cast<Eigen::Index>(type));
    }
    if (a_.has_positional()) x += positional(a_, p_, x);
    if (a_.embedding_norm) x = norm(stack + "embed.norm", x);
    return a_.maps_embedding() ? linear("embed.map", x) : x;
  }

  Mat linear(const std::string& name, const Mat& x) const {
    Mat y = x * p_.at(name + ".weight");
    if (const auto bias = p_.find(name + ".bias"); bias != p_.end()) {
      y.rowwise() += bias->second.row(0);
    }
    return y;
  }

  Mat norm(const std::string& name, Mat x) const {
    for (Eigen::Index t = 0; t < x.rows(); ++t) {
      if (a_.norm == Norm::layer) x.row(t).array() -= x.row(t).mean();
      x.row(t) /= std::sqrt(x.row(t).squaredNorm() / static_cast<double>(x.cols()) + a_.norm_eps);
      x.row(t).array() *= p_.at(name + ".gain").row(0).array();
      if (a_.norm_bias) x.row(t) += p_.at(name + ".bias").row(0);
    }
    return x;
  }

  static Mat activated(Activation activation, const Mat& x) {
    return x.unaryExpr([activation](double v) {
      switch (activation) {
        case Activation::relu:
          return std::max(v, 0.0);
        case Activation::relu_squared:
          return v > 0 ? v * v : 0;
        case Activation::gelu:
          return v / 2 * (1 + std::erf(v / std::numbers::sqrt2));
        case Activation::gelu_tanh:
          return v / 2 *
                 (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
        case Activation::gelu_quick:
          return v / (1 + std::exp(-1.702 * v));
        case Activation::silu:
          return v / (1 + std::exp(-v));
        case Activation::tanh:
          return std::tanh(v);
      }
      return v;
    });
  }

  Mat feed_forward(const std::string& at, const Mat& x) const {
    const FeedForward& f = a_.layer(layer_of(at)).ffn;
    const bool apart = f.experts.own_norms;
    const auto read = [&](const char* name) { return apart ? norm(at + name, x) : x; };
    Mat all = hidden(f, at, read("norm"));
    if (f.experts.count == 0) return linear(at + "down", all);
    const Mat routed_by = f.experts.router_scale * read("router.norm");
    Mat biases = Mat::Zero(x.rows(), a_.width);
    for (Eigen::Index t = 0; t < x.rows(); ++t) {
      const auto bias = p_.find(at + "selection.bias");
      Eigen::VectorXd weights =
          routed(f.experts, linear(at + "router", routed_by.row(t)).row(0),
                 bias == p_.end() ? Mat::Zero(1, f.experts.count) : bias->second);
      for (std::int64_t e = 0; f.experts.scales && e < f.experts.count; ++e) {
        weights(e) *= p_.at(at + "experts.scale.gain")(0, e);
      }
      for (Eigen::Index i = 0; i < all.cols(); ++i) all(t, i) *= weights(i / f.width);
      if (f.biases.down) biases.row(t) = weights.transpose() * p_.at(at + "down.bias");
    }
    const Mat out = all * p_.at(at + "down.weight") + biases;
    if (f.experts.shared_width == 0) return out;
    Mat shared = linear(at + "shared.down", hidden(f, at + "shared.", read("shared.norm")));
    if (f.experts.shared_gate) {
      const Mat gate = linear(at + "shared.router", x);
      for (Eigen::Index t = 0; t < x.rows(); ++t) shared.row(t) /= 1 + std::exp(-gate(t, 0));
    }
    if (!apart) return out + shared;
    return norm(at + "experts.post_norm", out) + norm(at + "shared.post_norm", shared);
  }

  Mat hidden(const FeedForward& f, const std::string& at, const Mat& x) const {
    if (!f.gated) return activated(f.activation, linear(at + "up", x));
    Mat gate = linear(at + "gate", x), up = linear(at + "up", x);
    if (f.limit > 0) {
      gate = gate.cwiseMin(f.limit);
      up = up.cwiseMin(f.limit).cwiseMax(-f.limit);
    }
    up.array() += f.up_offset;
    return activated(f.activation, gate).cwiseProduct(up);
  }

  // The weight of each expert, 0 for those that are not chosen: one after another the best that is
  // left is taken, where `bias` counts for the choice alone.
  static Eigen::VectorXd routed(const Experts& e, const Eigen::RowVectorXd& logits,
                                const Mat& bias) {
    Eigen::VectorXd scores = logits.array().exp();
    if (e.scoring == Scoring::sigmoid) {
      scores = scores.array() / (1 + scores.array());
    } else {
      scores /= scores.sum();
    }
    const double never = -std::numeric_limits<double>::infinity();
    Eigen::VectorXd left = scores + bias.transpose();
    const Eigen::Index size = e.count / e.groups;
    Eigen::VectorXd ranks(e.groups);
    for (Eigen::Index g = 0; g < e.groups; ++g) {
      std::vector<double> members(left.begin() + g * size, left.begin() + (g + 1) * size);
      std::sort(members.begin(), members.end(), std::greater<>());
      ranks(g) = std::accumulate(members.begin(), members.begin() + e.group_leaders, 0.0);
    }
    for (Eigen::Index closed = e.active_groups; closed < e.groups; ++closed) {
      Eigen::Index worst = 0;
      ranks.minCoeff(&worst);
      ranks(worst) = -never;
      left.segment(worst * size, size).setConstant(never);
    }
    Eigen::VectorXd weights = Eigen::VectorXd::Zero(e.count);
    for (std::int64_t i = 0; i < e.active; ++i) {
      Eigen::Index best = 0;
      left.maxCoeff(&best);
      left(best) = never;
      weights(best) = scores(best);
    }
    if (e.renormalised) weights /= weights.sum();
    return e.weight_scale * weights;
  }

  // One head of q or k: normed, then rotated by its position.
  Mat prepared(const Mat& all, std::int64_t head, const std::string& gain) const {
    const Attention& a = a_.layer(layer_of(gain)).attention;
    const bool joint = a.qk_norm == QkNorm::joint;
    Mat x = all.middleCols(head * a.qk_width, a.qk_width);
    for (Eigen::Index t = 0; t < x.rows(); ++t) {
      if (a.has_qk_norm()) {
        const Mat normed = joint ? Mat(all.row(t)) : Mat(x.row(t));
        x.row(t) /=
            std::sqrt(normed.squaredNorm() / static_cast<double>(normed.cols()) + a_.norm_eps);
        x.row(t).array() *=
            p_.at(gain).row(0).segment(joint ? head * a.qk_width : 0, a.qk_width).array();
      }
      if (a.positions != Positions::rotary) continue;
      for (std::int64_t b = 0; b < a.rotary_dims / 2; ++b) {
        const double turns =
            a.grid ? place(a_, t, x.rows(), b >= a.rotary_dims / 4) : static_cast<double>(t);
        const double angle = turns * a.rotary_frequencies[static_cast<std::size_t>(b)];
        const double u = x(t, 2 * b), v = x(t, 2 * b + 1);
        x(t, 2 * b) = u * std::cos(angle) - v * std::sin(angle);
        x(t, 2 * b + 1) = u * std::sin(angle) + v * std::cos(angle);
      }
    }
    return x;
  }

  static bool sees(bool causal, std::int64_t window, Eigen::Index i, Eigen::Index j) {
    if (causal && j > i) return false;
    return window == 0 || std::abs(i - j) < window;
  }

  // The table that a layer reads: its own, or that of the first layer of its stack.
  const Mat& relative_table(std::int64_t layer) const {
    const bool first = layer == 0 || layer == a_.encoder_layers;
    const bool own = first || !a_.layer(layer).attention.shares_table;
    const std::int64_t owner = own ? layer : layer < a_.encoder_layers ? 0 : a_.encoder_layers;
    return p_.at("layers." + std::to_string(owner) + ".attn.relative_bias");
  }

  // Behind its norm, or what is given where there is no latent.
  Mat latent(const std::string& name, const Mat& x) const {
    if (!p_.contains(name + ".weight")) return x;
    Mat y = linear(name, x);
    for (Eigen::Index t = 0; t < y.rows(); ++t) {
      y.row(t) /= std::sqrt(y.row(t).squaredNorm() / static_cast<double>(y.cols()) + a_.norm_eps);
      y.row(t).array() *= p_.at(name + ".norm.gain").row(0).array();
    }
    return y;
  }

  // Heads side by side, each [rotating part, plain part]; one rotating part may serve all heads.
  static Mat joined(const Attention& a, const Mat& rotating, const Mat& plain) {
    Mat all(plain.rows(), a.heads * a.qk_width);
    const std::int64_t dims = a.rotary_dims, rest = a.qk_width - dims;
    for (std::int64_t head = 0; head < a.heads; ++head) {
      const std::int64_t from = rotating.cols() == dims ? 0 : head * dims;
      all.middleCols(head * a.qk_width, dims) = rotating.middleCols(from, dims);
      all.middleCols(head * a.qk_width + dims, rest) = plain.middleCols(head * rest, rest);
    }
    return all;
  }

  // Keys and values from `source`, which is x but for cross-attention.
  Mat attention(const std::string& at, const Mat& x, const Mat& source) const {
    const std::int64_t layer = layer_of(at);
    const Attention& a = a_.layer(layer).attention;
    const bool causal = a_.causal && layer >= a_.encoder_layers && !a.cross;
    const Mat of_q = latent(at + "q_latent", x), of_kv = latent(at + "kv_latent", source);
    Mat q = linear(at + "q", of_q), k, v;
    std::string of_keys = at;
    if (a.shares_keys) {
      for (const auto& [other, own] : keys_and_values_) {
        if (other.alike(a)) std::tie(of_keys, k, v) = own;
      }
    } else {
      k = linear(at + "k", of_kv);
      v = linear(at + (a.keys_as_values ? "k" : "v"), of_kv);
      keys_and_values_.push_back({{a}, {at, k, v}});
    }
    for (Eigen::Index i = 0; a.value_norm && i < v.size(); i += a.v_width) {
      auto head = v.row(i / v.cols()).segment(i % v.cols(), a.v_width);
      head /= std::sqrt(head.squaredNorm() / static_cast<double>(a.v_width) + a_.norm_eps);
    }
    if (a.has_latents()) {
      q = joined(a, linear(at + "q_rotary", of_q), q);
      k = joined(a, linear(at + "k_rotary", x), k);
    }
    Mat mixed(x.rows(), a.heads * a.v_width);
    for (std::int64_t head = 0; head < a.heads; ++head) {
      const std::int64_t kv = head / a.group();
      Mat weights = a.scale * prepared(q, head, at + "q_norm.gain") *
                    prepared(k, kv, of_keys + "k_norm.gain").transpose();
      for (Eigen::Index i = 0; i < weights.rows(); ++i) {
        if (a.temperature > 0) {
          const std::int64_t spans = i / a.temperature_length;
          weights.row(i) *= 1 + a.temperature * std::log(1 + static_cast<double>(spans));
        }
        for (Eigen::Index j = 0; j < weights.cols(); ++j) {
          weights(i, j) = capped(weights(i, j), a.softcap);
          if (a.positions == Positions::alibi) {
            weights(i, j) -= alibi_slope(head, a.heads) * static_cast<double>(std::abs(i - j));
          } else if (a.positions == Positions::relative) {
            const auto row = a.grid ? grid_row(a, i, j) : relative_bucket(a, causal, j - i);
            weights(i, j) += relative_table(layer)(row, head);
          }
          weights(i, j) = sees(causal, a.window, i, j) ? std::exp(weights(i, j)) : 0;
        }
        const double sink = a.sinks ? std::exp(p_.at(at + "sinks")(0, head)) : 0;
        weights.row(i) /= weights.row(i).sum() + sink;
      }
      if (a.contacts) add_contacts(input_, p_.at(at + "contacts")(0, head), weights, contacts_);
      mixed.middleCols(head * a.v_width, a.v_width) =
          weights * v.middleCols(kv * a.v_width, a.v_width);
    }
    if (a.gate) {
      mixed = mixed.cwiseQuotient(
          linear(at + "gate", x).unaryExpr([](double gate) { return 1 + std::exp(-gate); }));
    }
    return linear(at + "o", mixed);
  }

  // Layers whose keys and values others may take, in order: whose attention is theirs otherwise.
  struct Owner {
    Attention attention;
    bool alike(Attention other) const {
      other.shares_keys = false;
      return attention == other;
    }
  };
  const Architecture& a_;
  const Parameters<double>& p_;
  mutable std::vector<std::pair<Owner, std::tuple<std::string, Mat, Mat>>> keys_and_values_;
  mutable Mat input_, contacts_;  // of the sequence that is run
};

}  // namespace

Matrix<double> forward(const Architecture& architecture, const Parameters<double>& parameters,
                       const Matrix<double>& input, const Matrix<double>& source) {
  if (!architecture.beside.empty()) {
    Parameters<double> first, second;
    for (const auto& [name, value] : parameters) {
      if (name.starts_with("beside.")) {
        second.emplace(name.substr(7), value);
      } else if (const auto layer = layer_of(name); layer >= architecture.layers) {
        second.emplace("layers." + std::to_string(layer - architecture.layers) +
                           name.substr(name.find('.', 7)),
                       value);
      } else {
        first.emplace(name, value);
      }
    }
    const Mat a = Forward(architecture, first).run(input, {});
    const Mat b = Forward(architecture.beside.front(), second).run(source, {});
    Mat both(1, a.size() + b.size());
    both << a.reshaped<Eigen::RowMajor>().transpose(), b.reshaped<Eigen::RowMajor>().transpose();
    return both;
  }
  return Forward(architecture, parameters).run(input, source);
}

}  // namespace regauge::testing
