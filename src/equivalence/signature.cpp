#include "signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace regauge {
namespace {

constexpr std::int64_t kProbes = 12;
constexpr std::array<double, 2> kDistances = {0, 1};

Matrix<double> probes(const char* name, std::int64_t width) {
  Random random(0, fmt::format("signature/{}", name));
  Matrix<double> rows(kProbes, width);
  for (auto& entry : rows.reshaped<Eigen::RowMajor>()) entry = random.normal();
  return rows;
}

// x W + b, by the name of the linear map.
Matrix<double> linear(const Parameters<double>& parameters, const std::string& name,
                      const Matrix<double>& x) {
  Matrix<double> y = x * parameters.at(name + ".weight");
  const auto bias = parameters.find(name + ".bias");
  if (bias != parameters.end()) y.rowwise() += bias->second.row(0);
  return y;
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::gelu:
      return x * std::erfc(-x / std::sqrt(2.0)) / 2;
    case Activation::gelu_tanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / 3.141592653589793) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

// QK-norm, head by head.
void normalise(const Architecture& a, const Matrix<double>& gain, Matrix<double>& x) {
  for (Eigen::Index row = 0; row < x.rows(); ++row) {
    for (Eigen::Index at = 0; at < x.cols(); at += a.qk_width) {
      auto head = x.row(row).segment(at, a.qk_width);
      const double mean = head.squaredNorm() / static_cast<double>(a.qk_width);
      head = head.cwiseProduct(gain.row(0)) / std::sqrt(mean + a.norm_eps);
    }
  }
}

// The inner product of a query with a key that is `distance` further on.
template <class Row>
double logit(const Architecture& a, const Row& q, const Row& k, double distance) {
  double sum = 0;
  const auto pairs = static_cast<Eigen::Index>(a.rotary_frequencies.size());
  for (Eigen::Index b = 0; b < pairs; ++b) {
    const double angle = distance * a.rotary_frequencies[static_cast<std::size_t>(b)];
    const double c = std::cos(angle), s = std::sin(angle);
    sum += q(2 * b) * (c * k(2 * b) - s * k(2 * b + 1)) +
           q(2 * b + 1) * (s * k(2 * b) + c * k(2 * b + 1));
  }
  const auto rest = q.cols() - 2 * pairs;
  return sum + q.tail(rest).dot(k.tail(rest));
}

}  // namespace

Matrix<double> head_signatures(const Architecture& a, std::int64_t layer,
                               const Parameters<double>& parameters) {
  const std::string at = fmt::format("layers.{}.attn", layer);
  const Matrix<double> y = probes("key", a.width);
  Matrix<double> q = linear(parameters, at + ".q", probes("query", a.width));
  Matrix<double> k = linear(parameters, at + ".k", y);
  const Matrix<double> v = linear(parameters, at + ".v", y);
  const Matrix<double> o = probes("write", a.width) * parameters.at(at + ".o.weight").transpose();
  if (a.qk_norm) {
    normalise(a, parameters.at(at + ".q_norm.gain"), q);
    normalise(a, parameters.at(at + ".k_norm.gain"), k);
  }
  constexpr auto kKinds = static_cast<std::int64_t>(kDistances.size());
  Matrix<double> rows(a.heads, kProbes * (kKinds + 1));
  for (std::int64_t head = 0; head < a.heads; ++head) {
    const std::int64_t kv = head / (a.heads / a.kv_heads);
    for (std::int64_t n = 0; n < kProbes; ++n) {
      const Eigen::RowVectorXd query = q.row(n).segment(head * a.qk_width, a.qk_width);
      const Eigen::RowVectorXd key = k.row(n).segment(kv * a.qk_width, a.qk_width);
      for (std::int64_t t = 0; t < kKinds; ++t) {
        rows(head, t * kProbes + n) = logit(a, query, key, kDistances[static_cast<std::size_t>(t)]);
      }
      rows(head, kKinds * kProbes + n) = v.row(n)
                                             .segment(kv * a.v_width, a.v_width)
                                             .dot(o.row(n).segment(head * a.v_width, a.v_width));
    }
  }
  return rows;
}

Matrix<double> neuron_signatures(const Architecture& a, std::int64_t layer,
                                 const Parameters<double>& parameters) {
  const std::string at = fmt::format("layers.{}.ffn", layer);
  const Matrix<double> x = probes("input", a.width);
  Matrix<double> hidden = linear(parameters, at + (a.gated ? ".gate" : ".up"), x);
  for (auto& entry : hidden.reshaped()) entry = activate(a.activation, entry);
  if (a.gated) hidden = hidden.cwiseProduct(linear(parameters, at + ".up", x));
  const Matrix<double> written =
      probes("write", a.width) * parameters.at(at + ".down.weight").transpose();
  return hidden.cwiseProduct(written).transpose();
}

std::vector<std::int64_t> match_rows(const Matrix<double>& b, const Matrix<double>& a) {
  const Eigen::RowVectorXd sizes = a.colwise().norm().array() + 1e-300;
  const Matrix<double> to = a.array().rowwise() / sizes.array();
  const Matrix<double> from = b.array().rowwise() / sizes.array();
  const auto count = to.rows();
  // Rows of `to` in the order of their first column: the search goes outwards from where a row
  // would stand and ends when that column alone is further off than the best so far.
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::int64_t i, std::int64_t j) { return to(i, 0) < to(j, 0); });
  std::vector<bool> used(static_cast<std::size_t>(count));
  std::vector<std::int64_t> permutation(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto here =
        std::lower_bound(order.begin(), order.end(), from(i, 0),
                         [&](std::int64_t j, double value) { return to(j, 0) < value; });
    double best = std::numeric_limits<double>::infinity();
    std::int64_t nearest = -1;
    // False when nothing beyond can be nearer.
    const auto consider = [&](std::int64_t j) {
      const double first = to(j, 0) - from(i, 0);
      if (first * first > best) return false;
      if (used[static_cast<std::size_t>(j)]) return true;
      const double distance = (to.row(j) - from.row(i)).squaredNorm();
      if (distance < best || nearest < 0) {
        best = distance;
        nearest = j;
      }
      return true;
    };
    for (auto up = here; up != order.end() && consider(*up); ++up) continue;
    for (auto down = here; down != order.begin() && consider(*std::prev(down)); --down) continue;
    used[static_cast<std::size_t>(nearest)] = true;
    permutation[static_cast<std::size_t>(i)] = nearest;
  }
  return permutation;
}

}  // namespace regauge
