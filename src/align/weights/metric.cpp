#include "metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "arch/names.h"
#include "base/blas.h"
#include "numerics/dense.h"
#include "token_stream.h"

namespace regauge {
namespace {

template <class Scalar>
using Vector = Eigen::Vector<Scalar, Eigen::Dynamic>;

constexpr std::int64_t kTokens = 1024;  // followed through the model
constexpr int kChainSteps = 30;         // from uniform to what the model settles on
constexpr double kRidge = 0.02;         // of the mean variance, for directions that no token takes
constexpr double kEndsWeight = 4;      // of embedding and output head, in squares, beside a layer's
constexpr double kNormOfATensor = 10;  // to which every tensor is scaled, so that floats sum well

// Evenly spread over the table.
std::vector<std::int64_t> some_tokens(std::int64_t vocabulary) {
  const auto count = std::min(vocabulary, kTokens);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    tokens[static_cast<std::size_t>(i)] = i * vocabulary / count;
  }
  return tokens;
}

// The largest of them.
template <class Scalar>
std::vector<std::int64_t> frequent_tokens(const Vector<Scalar>& frequencies) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(frequencies.size()));
  std::iota(order.begin(), order.end(), 0);
  if (frequencies.size() <= kTokens) return order;
  std::nth_element(order.begin(), order.begin() + kTokens, order.end(),
                   [&](auto i, auto j) { return frequencies(i) > frequencies(j); });
  order.resize(kTokens);
  std::sort(order.begin(), order.end());
  return order;
}

template <class Scalar>
TokenStream<Scalar> followed(const Architecture& shape, const MovedModel& model,
                             const std::vector<std::int64_t>& tokens) {
  TokenStream<Scalar> stream(shape, model.layer<Scalar>(-1), tokens);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    stream.advance(layer, model.layer<Scalar>(layer));
  }
  return stream;
}

// Where a chain of next-token predictions from single tokens comes to rest: how often the model
// expects each token.
template <class Scalar>
Vector<Scalar> expected_frequencies(const Architecture& shape, const MovedModel& model) {
  const auto tokens = some_tokens(shape.vocabulary);
  const Matrix<Scalar> next =
      followed<Scalar>(shape, model, tokens).predictions(model.layer<Scalar>(-1));
  Eigen::RowVector<Scalar, Eigen::Dynamic> now(next.rows());
  now.setConstant(Scalar{1} / static_cast<Scalar>(next.rows()));
  Eigen::RowVector<Scalar, Eigen::Dynamic> all = now * next;
  for (int step = 0; step < kChainSteps; ++step) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      now(static_cast<Eigen::Index>(i)) = all(tokens[i]);
    }
    all = (now / now.sum()) * next;
  }
  return all.transpose();
}

template <class Scalar>
Matrix<Scalar> root(Matrix<Scalar> covariance) {
  const auto size = covariance.rows();
  covariance *= static_cast<Scalar>(size) / covariance.trace();
  covariance.diagonal().array() += static_cast<Scalar>(kRidge);
  Vector<Scalar> values(size);
  symmetric_eigen(size, covariance.data(), values.data());
  Matrix<Scalar> scaled = covariance;
  for (Eigen::Index i = 0; i < size; ++i) {
    scaled.row(i) *= std::sqrt(std::max(Scalar{0}, values(i)));
  }
  return product_transposed(covariance, scaled);
}

template <class Scalar>
Matrix<Scalar> covariance(const Matrix<Scalar>& x, const Vector<Scalar>& weights) {
  const Matrix<Scalar> scaled = weights.asDiagonal() * x;
  return product_transposed(scaled, x);
}

template <class Scalar>
Matrix<Scalar> unit_rows(Matrix<Scalar> x) {
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    const Scalar size = x.row(i).norm();
    if (size > 0) x.row(i) /= size;
  }
  return x;
}

}  // namespace

template <class Scalar>
Metric<Scalar>::Metric(const Symmetry& symmetry, const MovedModel& a, const MovedModel& b,
                       Progress& progress)
    : symmetry_(symmetry), a_{&a, {}}, b_{&b, {}} {
  const Architecture& shape = symmetry.architecture;
  const bool all_tokens = shape.input == Input::tokens && !shape.encodes_vectors();
  if (all_tokens && shape.output.has(Output::tokens)) follow_tokens(progress);
}

template <class Scalar>
void Metric<Scalar>::follow_tokens(Progress& progress) {
  const Architecture& shape = symmetry_.architecture;
  frequencies_ = expected_frequencies<Scalar>(shape, *a_.model)
                     .cwiseProduct(expected_frequencies<Scalar>(shape, *b_.model))
                     .cwiseSqrt();
  // Rare tokens count more than their share.
  frequencies_ = frequencies_.cwiseSqrt();
  frequencies_ /= frequencies_.sum();
  const auto tokens = frequent_tokens<Scalar>(frequencies_);
  Vector weights(static_cast<Eigen::Index>(tokens.size()));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    weights(static_cast<Eigen::Index>(i)) = frequencies_(tokens[i]);
  }
  weights /= weights.sum();

  const auto ends_a = a_.model->template layer<Scalar>(-1);
  const auto ends_b = b_.model->template layer<Scalar>(-1);
  TokenStream<Scalar> of_a(shape, ends_a, tokens), of_b(shape, ends_b, tokens);
  streams_ = Matrix<Scalar>::Zero(shape.width, shape.width);
  const auto meet = [&] {
    const Matrix<Scalar> scaled = weights.asDiagonal() * unit_rows(of_b.stream());
    streams_ += product_transposed(scaled, unit_rows(of_a.stream()));
  };
  meet();
  progress.start("following tokens", shape.layers);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    of_a.advance(layer, a_.model->template layer<Scalar>(layer));
    of_b.advance(layer, b_.model->template layer<Scalar>(layer));
    meet();
    const std::string at = fmt::format("layers.{}.", layer);
    for (auto* side : {&a_, &b_}) {
      const TokenStream<Scalar>& stream = side == &a_ ? of_a : of_b;
      side->roots[at + "attn"] = root(covariance<Scalar>(stream.read_by_attention(), weights));
      if (shape.layer(layer).attention.cross && !side->roots.contains("encoder")) {
        side->roots["encoder"] = root(covariance<Scalar>(stream.read_by_keys(layer), weights));
      }
      if (!shape.layer(layer).has_ffn()) continue;
      side->roots[at + "ffn"] = root(covariance<Scalar>(stream.read_by_feed_forward(), weights));
    }
    progress.advance(1);
  }
  progress.finish();
  a_.roots["head"] = root(covariance<Scalar>(of_a.read_by_head(ends_a), weights));
  b_.roots["head"] = root(covariance<Scalar>(of_b.read_by_head(ends_b), weights));
}

template <class Scalar>
Parameters<Scalar> Metric<Scalar>::weighted(const Side& side, std::int64_t layer) const {
  Parameters<Scalar> tensors = side.model->template layer<Scalar>(layer);
  std::map<std::string, Scalar> factors;  // by tensor without ".weight"
  const auto width = symmetry_.architecture.width;
  for (auto& [name, tensor] : tensors) {
    if (tensor.rows() == 1) continue;
    const TensorAxes& axes = symmetry_.tensors.at(name);
    const bool reads = std::any_of(axes.rows.begin(), axes.rows.end(),
                                   [](const AxisPart& part) { return part.space == "residual"; });
    const bool ends = name == "embed.tokens" || name == "head.weight";
    const auto add_origin = [&, &table = tensor, &of = name](Scalar sign) {
      for (Eigen::Index i = 0; axes.pinned && i < table.cols(); ++i) {
        const double origin = fixed_origin(symmetry_.architecture, of, i);
        table.col(i).array() += sign * static_cast<Scalar>(origin);
      }
    };
    add_origin(1);
    if (frequencies_.size() != 0 && name == "embed.tokens") {
      const Vector scale = (frequencies_ * static_cast<Scalar>(tensor.rows())).cwiseSqrt();
      tensor = scale.asDiagonal() * tensor;
    }
    if (frequencies_.size() != 0 && name == "head.weight") {
      const Vector scale = (frequencies_ * static_cast<Scalar>(tensor.cols())).cwiseSqrt();
      const Vector mean = tensor * frequencies_;
      tensor.colwise() -= mean;
      tensor = tensor * scale.asDiagonal();
    }
    const bool encoded = layer >= 0 && symmetry_.architecture.layer(layer).attention.cross &&
                         (name.ends_with(".attn.k.weight") || name.ends_with(".attn.v.weight"));
    const auto found = side.roots.find(layer < 0 ? "head"
                                       : encoded ? "encoder"
                                                 : sublayer_of(name));
    if (reads && tensor.rows() == width && found != side.roots.end()) {
      tensor = product(found->second, tensor);
    }
    const Scalar size = tensor.norm();
    if (!(size > 0)) continue;
    const Scalar factor =
        static_cast<Scalar>(kNormOfATensor * std::sqrt(ends ? kEndsWeight : 1.0)) / size;
    tensor *= factor;
    add_origin(-1);
    factors[std::string(owner_of(name))] = factor;
  }
  // Biases with their matrices.
  for (auto& [name, tensor] : tensors) {
    const auto factor = factors.find(std::string(owner_of(name)));
    if (tensor.rows() == 1 && name.ends_with(".bias") && factor != factors.end()) {
      tensor *= factor->second;
    }
  }
  return tensors;
}

template class Metric<float>;
template class Metric<double>;

}  // namespace regauge
