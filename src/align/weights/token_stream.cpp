#include "token_stream.h"

#include <fmt/format.h>

#include <cmath>

#include "arch/activation.h"
#include "arch/experts.h"
#include "arch/linear.h"
#include "arch/transform_norm.h"
#include "numerics/dense.h"
#include "regauge/symmetry/block_map.h"

namespace regauge {
namespace {

// The token's own share of its softmax beside the sink: sigmoid(scale q.k - sink).
template <class Scalar>
void weigh_against_sinks(const Attention& shape, const std::string& at, const Matrix<Scalar>& x,
                         const Parameters<Scalar>& tensors, Matrix<Scalar>& values) {
  const Matrix<Scalar> q = linear(tensors, at + ".q", x), k = linear(tensors, at + ".k", x);
  const auto width = shape.qk_width;
  for (std::int64_t i = 0; i < shape.heads; ++i) {
    const auto logits = static_cast<Scalar>(shape.scale) *
                        q.middleCols(i * width, width)
                            .cwiseProduct(k.middleCols(i / shape.group() * width, width))
                            .rowwise()
                            .sum()
                            .array();
    const Scalar sink = tensors.at(at + ".sinks")(0, i);
    values.middleCols(i * shape.v_width, shape.v_width).array().colwise() /=
        (1 + (sink - logits).exp()).eval();
  }
}

template <class Scalar>
void normalise_heads(double eps, std::int64_t width, Matrix<Scalar>& x) {
  for (Eigen::Index at = 0; at < x.cols(); at += width) {
    auto head = x.middleCols(at, width);
    const Eigen::Array<Scalar, Eigen::Dynamic, 1> size =
        (head.rowwise().squaredNorm().array() / static_cast<Scalar>(width) +
         static_cast<Scalar>(eps))
            .sqrt();
    head.array().colwise() /= size;
  }
}

}  // namespace

template <class Scalar>
TokenStream<Scalar>::TokenStream(const Architecture& architecture, const Parameters<Scalar>& ends,
                                 const std::vector<std::int64_t>& tokens)
    : shape_(architecture) {
  stream_ = embedded(0, ends, tokens);
  if (shape_.encoder_layers == 0) return;
  embedded_ = embedded(shape_.encoder_layers, ends, tokens);
  for (const auto& [name, value] : ends) {
    if (name.starts_with("encoder.norm.")) encoder_norm_.emplace(name, value);
  }
}

template <class Scalar>
Matrix<Scalar> TokenStream<Scalar>::embedded(std::int64_t layer, const Parameters<Scalar>& ends,
                                             const std::vector<std::int64_t>& tokens) const {
  const Matrix<Scalar>& table = ends.at(shape_.tokens_of(layer));
  const std::string at = shape_.embedding_of(layer);
  Matrix<Scalar> x(static_cast<Eigen::Index>(tokens.size()), table.cols());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    x.row(static_cast<Eigen::Index>(i)) =
        static_cast<Scalar>(shape_.embedding_scale) * table.row(tokens[i] % table.rows());
  }
  for (const char* other : {".positions", ".types"}) {
    if (const auto found = ends.find(at + other); found != ends.end()) {
      x.rowwise() += found->second.row(0);
    }
  }
  if (shape_.position_table == PositionTable::sinusoidal) {
    for (Eigen::Index i = 0; i < x.cols(); ++i) {
      x.col(i).array() += static_cast<Scalar>(sinusoid(shape_, 0, i));
    }
  }
  if (shape_.embedding_norm) x = normed(x, at + ".norm", ends);
  return shape_.maps_embedding() ? linear(ends, at + ".map", x) : x;
}

template <class Scalar>
Matrix<Scalar> TokenStream<Scalar>::normed(const Matrix<Scalar>& x, const std::string& norm,
                                           const Parameters<Scalar>& tensors) const {
  Matrix<Scalar> y = x;
  if (shape_.norm == Norm::layer) y.colwise() -= y.rowwise().mean().eval();
  const Eigen::Array<Scalar, Eigen::Dynamic, 1> size =
      (y.rowwise().squaredNorm().array() / static_cast<Scalar>(y.cols()) +
       static_cast<Scalar>(shape_.norm_eps))
          .sqrt();
  y.array().colwise() /= size;
  y.array().rowwise() *= tensors.at(norm + ".gain").row(0).array();
  const auto bias = tensors.find(norm + ".bias");
  if (bias != tensors.end()) y.rowwise() += bias->second.row(0);
  return y;
}

template <class Scalar>
Matrix<Scalar> TokenStream<Scalar>::attended(std::int64_t layer,
                                             const Parameters<Scalar>& tensors) const {
  if (shape_.layer(layer).has_delta()) return through_delta_net(layer, tensors);
  const Attention& shape = shape_.layer(layer).attention;
  const std::string at = fmt::format("layers.{}.attn", layer);
  const auto read = [&]() -> Matrix<Scalar> {
    const Matrix<Scalar>& x = read_by_keys(layer);
    if (!shape.has_latents()) return x;
    return normed(linear(tensors, at + ".kv_latent", x), at + ".kv_latent.norm", tensors);
  };
  Matrix<Scalar> values = linear(tensors, fmt::format("{}.{}", at, shape.value_map()), read());
  if (shape.value_norm) normalise_heads(shape_.norm_eps, shape.v_width, values);
  const auto group = shape.group(), width = shape.v_width;
  if (group == 1 && !shape.sinks && !shape.gate) return linear(tensors, at + ".o", values);
  Matrix<Scalar> spread(values.rows(), shape.heads * width);
  for (std::int64_t i = 0; i < shape.heads; ++i) {
    spread.middleCols(i * width, width) = values.middleCols(i / group * width, width);
  }
  if (shape.sinks) weigh_against_sinks(shape, at, attention_, tensors, spread);
  if (shape.gate) {
    spread.array() /= 1 + (-linear(tensors, at + ".gate", attention_).array()).exp();
  }
  return linear(tensors, at + ".o", spread);
}

// Of the kernels the last row alone, and of the state what the token itself has written: its value
// times sigmoid(b) q.k.
template <class Scalar>
Matrix<Scalar> TokenStream<Scalar>::through_delta_net(std::int64_t layer,
                                                      const Parameters<Scalar>& tensors) const {
  const DeltaNet& shape = shape_.layer(layer).delta;
  const std::string at = fmt::format("layers.{}.delta", layer);
  const auto channels = [&](const char* name) {
    Matrix<Scalar> y = linear(tensors, at + name, attention_);
    y *= tensors.at(at + name + "_conv.weight").bottomRows(1).row(0).asDiagonal();
    activate(Activation::silu, y);
    return y;
  };
  const Matrix<Scalar> q = channels(".q"), k = channels(".k"), v = channels(".v");
  const Matrix<Scalar> b = linear(tensors, at + ".b", attention_);
  Matrix<Scalar> z = linear(tensors, at + ".z", attention_);
  activate(Activation::silu, z);
  const auto width = shape.value_width;
  Matrix<Scalar> written(v.rows(), v.cols());
  for (std::int64_t head = 0; head < shape.value_heads; ++head) {
    const auto keys = head / shape.group() * shape.key_width;
    const auto of_q = q.middleCols(keys, shape.key_width),
               of_k = k.middleCols(keys, shape.key_width);
    const auto eps = static_cast<Scalar>(DeltaNet::kLengthEps);
    const auto lengths = ((of_q.rowwise().squaredNorm().array() + eps) *
                          (of_k.rowwise().squaredNorm().array() + eps))
                             .sqrt() *
                         std::sqrt(static_cast<Scalar>(shape.key_width));
    const Eigen::Array<Scalar, Eigen::Dynamic, 1> share =
        of_q.cwiseProduct(of_k).rowwise().sum().array() / lengths /
        (1 + (-b.col(head).array()).exp());
    Matrix<Scalar> y = v.middleCols(head * width, width);
    y.array().colwise() *= share;
    written.middleCols(head * width, width) = normed(y, at + ".norm", tensors);
  }
  return linear(tensors, at + ".o", Matrix<Scalar>(written.cwiseProduct(z)));
}

template <class Scalar>
Matrix<Scalar> TokenStream<Scalar>::fed_forward(std::int64_t layer,
                                                const Parameters<Scalar>& tensors) const {
  const FeedForward& shape = shape_.layer(layer).ffn;
  const std::string at = fmt::format("layers.{}.ffn", layer);
  const auto hidden_of = [&](const std::string& maps, const Matrix<Scalar>& x) {
    const auto limit = static_cast<Scalar>(shape.limit);
    Matrix<Scalar> hidden = linear(tensors, maps + (shape.gated ? ".gate" : ".up"), x);
    if (limit > 0) hidden = hidden.cwiseMin(limit);
    activate(shape.activation, hidden);
    if (!shape.gated) return hidden;
    Matrix<Scalar> up = linear(tensors, maps + ".up", x);
    if (limit > 0) up = up.cwiseMin(limit).cwiseMax(-limit);
    up.array() += static_cast<Scalar>(shape.up_offset);
    return Matrix<Scalar>(hidden.cwiseProduct(up));
  };
  Matrix<Scalar> hidden = hidden_of(at, feed_forward_);
  const Experts& experts = shape.experts;
  if (experts.count == 0) return linear(tensors, at + ".down", hidden);
  const bool apart = experts.own_norms;
  const auto read = [&](const char* norm) {
    return apart ? normed(stream_, at + norm, tensors) : feed_forward_;
  };
  const auto written = [&](const char* norm, const Matrix<Scalar>& y) {
    return apart ? normed(y, at + norm, tensors) : y;
  };
  const auto selection = tensors.find(at + ".selection.bias");
  const Matrix<Scalar> logits = static_cast<Scalar>(experts.router_scale) *
                                linear(tensors, at + ".router", read(".router.norm"));
  Matrix<Scalar> weights =
      expert_weights(experts, logits, selection == tensors.end() ? nullptr : &selection->second);
  if (experts.scales) {
    weights.array().rowwise() *= tensors.at(at + ".experts.scale.gain").row(0).array();
  }
  for (Eigen::Index i = 0; i < hidden.cols(); ++i) {
    hidden.col(i).array() *= weights.col(i / shape.width).array();
  }
  Matrix<Scalar> sum = hidden * tensors.at(at + ".down.weight");
  if (shape.biases.down) sum += weights * tensors.at(at + ".down.bias");
  if (experts.shared_width == 0) return sum;
  Matrix<Scalar> shared =
      linear(tensors, at + ".shared.down", hidden_of(at + ".shared", read(".shared.norm")));
  if (experts.shared_gate) {
    const Matrix<Scalar> gate = linear(tensors, at + ".shared.router", feed_forward_);
    shared.array().colwise() /= 1 + (-gate.col(0).array()).exp();
  }
  return written(".experts.post_norm", sum) + written(".shared.post_norm", shared);
}

template <class Scalar>
void TokenStream<Scalar>::advance(std::int64_t layer, const Parameters<Scalar>& tensors) {
  const std::string at = fmt::format("layers.{}.attn", layer);
  const std::string ffn = fmt::format("layers.{}.ffn", layer);
  if (layer > 0 && layer == shape_.encoder_layers) {
    encoded_ = shape_.plain_stream() ? normed(stream_, "encoder.norm", encoder_norm_) : stream_;
    stream_ = embedded_;
  }
  if (!shape_.plain_stream()) {
    for (std::int64_t pass = 0; pass < shape_.passes; ++pass) {
      attention_ = stream_;
      stream_ = normed(stream_ + attended(layer, tensors), at + ".norm", tensors);
      if (!shape_.layer(layer).has_ffn()) continue;
      feed_forward_ = stream_;
      stream_ = normed(stream_ + fed_forward(layer, tensors), ffn + ".norm", tensors);
    }
    return;
  }
  const Layer& shape = shape_.layer(layer);
  const auto read = [&](const std::string& branch, bool behind_norm) {
    return behind_norm ? normed(stream_, branch + ".norm", tensors) : stream_;
  };
  const auto written = [&](const Matrix<Scalar>& x, const std::string& branch) {
    Matrix<Scalar> y = shape.norms_output() ? normed(x, branch + ".post_norm", tensors) : x;
    if (shape.layer_scale) {
      y.array().rowwise() *= tensors.at(branch + ".layer_scale.gain").row(0).array();
    }
    return Matrix<Scalar>(static_cast<Scalar>(shape.branch_scale) * y);
  };
  attention_ = read(at, shape_.norms_attention(layer));
  const Matrix<Scalar> attended_to = written(attended(layer, tensors), at);
  if (!shape.parallel) stream_ += attended_to;
  if (!shape.has_ffn()) return;
  feed_forward_ = shape.shared_norm ? attention_ : read(ffn, shape.norms_input());
  stream_ += written(fed_forward(layer, tensors), ffn);
  if (shape.parallel) stream_ += attended_to;
  if (shape.stream_scale) stream_ *= tensors.at(fmt::format("layers.{}.scale", layer))(0, 0);
}

template <class Scalar>
Matrix<Scalar> TokenStream<Scalar>::read_by_head(const Parameters<Scalar>& ends) const {
  if (!shape_.plain_stream()) return stream_;
  return normed(stream_, "head.norm", ends);
}

template <class Scalar>
Matrix<Scalar> TokenStream<Scalar>::predictions(const Parameters<Scalar>& ends) const {
  Matrix<Scalar> x = read_by_head(ends);
  if (shape_.head_transform) {
    x = linear(ends, "head.transform", x);
    activate(shape_.kinds.front().ffn.activation, x);
    x = normed(x, transform_norm(shape_), ends);
  }
  Matrix<Scalar> logits = shape_.tied ? product(x, ends.at("embed.tokens").transpose())
                                      : product(x, ends.at("head.weight"));
  if (const auto bias = ends.find("head.bias"); bias != ends.end()) {
    logits.rowwise() += bias->second.row(0);
  }
  logits *= static_cast<Scalar>(shape_.logit_scale);
  if (shape_.logit_softcap != 0) {
    const auto cap = static_cast<Scalar>(shape_.logit_softcap);
    logits = cap * (logits.array() / cap).tanh();
  }
  logits.colwise() -= logits.rowwise().maxCoeff().eval();
  logits = logits.array().exp();
  logits.array().colwise() /= logits.rowwise().sum().array().eval();
  return logits;
}

template class TokenStream<float>;
template class TokenStream<double>;

}  // namespace regauge
