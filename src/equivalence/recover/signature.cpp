#include "signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "arch/activation.h"
#include "arch/linear.h"
#include "equivalence/recover/tolerances.h"
#include "numerics/dense.h"
#include "probe.h"
#include "rows.h"

namespace regauge {
namespace {

constexpr std::array<double, 2> kDistances = {0, 1};
// Where a row is found that is equal but for rounding, so many more are looked at before it is
// taken: a crowd of equal rows is not searched to its end for each of them.
constexpr int kMoreThanEnough = 64;

// QK-norm: of runs as long as the gain, which are heads or all of them together.
void normalise(double eps, const Matrix<double>& gain, Matrix<double>& x) {
  const auto width = gain.cols();
  for (Eigen::Index row = 0; row < x.rows(); ++row) {
    for (Eigen::Index at = 0; at < x.cols(); at += width) {
      auto head = x.row(row).segment(at, width);
      const double mean = head.squaredNorm() / static_cast<double>(width);
      if (mean + eps > 0) head /= std::sqrt(mean + eps);
      head = head.cwiseProduct(gain.row(0)).eval();
    }
  }
}

// The inner product of a query with a key that is `distance` further on.
template <class Row>
double logit(const Attention& a, const Row& q, const Row& k, double distance) {
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

// Blocks of columns as the spaces that they span: x P y for pairs of probes. One row per block.
Matrix<double> spans(const Matrix<double>& columns, std::int64_t width, const Known& known) {
  const Matrix<double> x = probes("span", known);
  const Matrix<double> products = product(x, columns);
  Matrix<double> rows(columns.cols() / width, kProbes);
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    const Matrix<double> inside = product(products.middleCols(i * width, width),
                                          span_root(columns.middleCols(i * width, width)));
    for (Eigen::Index n = 0; n < kProbes; ++n) {
      rows(i, n) = inside.row(n).dot(inside.row((n + 1) % kProbes));
    }
  }
  return rows;
}

// How a neuron's vector is known from what the neuron computes.
enum class UpTo { nothing, length, factor };

// One row per neuron: its vector's products with probes. Lengths that are mere rounding of others
// count as nothing.
Matrix<double> directions(Matrix<double> products, const Eigen::VectorXd& squares, UpTo up_to) {
  products.transposeInPlace();
  if (up_to == UpTo::nothing) return products;
  const double floor = kNoSquare * squares.mean() + 1e-300;
  for (Eigen::Index i = 0; i < products.rows(); ++i) {
    products.row(i) /= std::sqrt(squares(i) + floor);
    if (up_to == UpTo::length) continue;
    const double first = products(i, 0);
    for (Eigen::Index n = 0; n + 1 < kProbes; ++n) products(i, n) *= products(i, n + 1);
    products(i, kProbes - 1) *= first;
  }
  return products;
}

// Rows in an order, some of which are taken. Looking past those that are costs next to nothing.
class FreePlaces {
 public:
  explicit FreePlaces(const std::vector<std::int64_t>& order)
      : above_(order.size() + 1), below_(order.size() + 1), place_(order.size()) {
    std::iota(above_.begin(), above_.end(), 0);
    std::iota(below_.begin(), below_.end(), 0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      place_[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    }
  }

  // The first free place at `i` or after it; the number of places if there is none.
  std::int64_t from(std::int64_t i) { return root(above_, i); }
  // The last free place before `i`, or -1.
  std::int64_t before(std::int64_t i) { return root(below_, i) - 1; }
  bool has(std::int64_t row) {
    const std::int64_t i = place_[static_cast<std::size_t>(row)];
    return from(i) == i;
  }
  void take(std::int64_t row) {
    const std::int64_t i = place_[static_cast<std::size_t>(row)];
    above_[static_cast<std::size_t>(i)] = i + 1;
    below_[static_cast<std::size_t>(i + 1)] = i;
  }

 private:
  // The end of a chain of taken places; the chain is shortened on the way.
  static std::int64_t root(std::vector<std::int64_t>& next, std::int64_t i) {
    while (next[static_cast<std::size_t>(i)] != i) {
      auto& link = next[static_cast<std::size_t>(i)];
      link = next[static_cast<std::size_t>(link)];
      i = link;
    }
    return i;
  }

  std::vector<std::int64_t> above_;  // i where place i is free, else a later one
  std::vector<std::int64_t> below_;  // i where place i - 1 is free or i = 0, else an earlier one
  std::vector<std::int64_t> place_;  // of each row
};

}  // namespace

namespace {

// What a map reads: a latent behind its norm where there is one, or what is given.
Matrix<double> behind_latent(double eps, const Parameters<double>& parameters,
                             const std::string& name, const Matrix<double>& x) {
  if (!parameters.contains(name + ".weight")) return x;
  Matrix<double> y = linear(parameters, name, x);
  normalise(eps, parameters.at(name + ".norm.gain"), y);
  return y;
}

// Heads side by side, the rotating part of each before the rest; one may serve all heads.
Matrix<double> with_rotating(const Attention& a, const Matrix<double>& rotating,
                             const Matrix<double>& plain) {
  Matrix<double> all(plain.rows(), a.heads * a.qk_width);
  for (std::int64_t head = 0; head < a.heads; ++head) {
    const std::int64_t from = rotating.cols() == a.rotary_dims ? 0 : head * a.rotary_dims;
    all.middleCols(head * a.qk_width, a.rotary_dims) = rotating.middleCols(from, a.rotary_dims);
    all.middleCols(head * a.qk_width + a.rotary_dims, a.plain_width()) =
        plain.middleCols(head * a.plain_width(), a.plain_width());
  }
  return all;
}

}  // namespace

Matrix<double> head_signatures(const Architecture& architecture, std::int64_t layer,
                               const Parameters<double>& parameters, const Known& known) {
  const Attention& a = architecture.layer(layer).attention;
  const std::string at = fmt::format("layers.{}.attn", layer);
  const auto group = a.group();
  const Matrix<double> y = probes("key", known);
  const Matrix<double>& o_weight = parameters.at(at + ".o.weight");
  const Matrix<double> of_q =
      behind_latent(architecture.norm_eps, parameters, at + ".q_latent", probes("query", known));
  const Matrix<double> of_kv =
      behind_latent(architecture.norm_eps, parameters, at + ".kv_latent", y);
  Matrix<double> q = linear(parameters, at + ".q", of_q);
  Matrix<double> k = linear(parameters, at + ".k", of_kv);
  const std::string values = std::string(".") + a.value_map();
  Matrix<double> v = linear(parameters, at + values, of_kv);
  if (a.value_norm) normalise(architecture.norm_eps, Matrix<double>::Ones(1, a.v_width), v);
  if (a.has_latents()) {
    q = with_rotating(a, linear(parameters, at + ".q_rotary", of_q), q);
    k = with_rotating(a, linear(parameters, at + ".k_rotary", y), k);
  }
  const Matrix<double> o = probes("write", known) * o_weight.transpose();
  if (a.has_qk_norm()) {
    normalise(architecture.norm_eps, parameters.at(at + ".q_norm.gain"), q);
    normalise(architecture.norm_eps, parameters.at(at + ".k_norm.gain"), k);
  }
  constexpr auto kKinds = static_cast<std::int64_t>(kDistances.size());
  Matrix<double> rows(a.heads, kProbes * (kKinds + 1));
  for (std::int64_t head = 0; head < a.heads; ++head) {
    const std::int64_t kv = head / group;
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
  // A head that does nothing still has its numbers.
  const auto read = [&](const std::string& name, std::int64_t width, std::int64_t latent = 0) {
    return spans(parameters.at(at + name), width, latent > 0 ? Known(latent) : known);
  };
  std::vector<Matrix<double>> parts = {
      rows, read(".q.weight", a.plain_width(), a.q_latent),
      repeated(read(".k.weight", a.plain_width(), a.kv_latent), group),
      repeated(read(values + ".weight", a.v_width, a.kv_latent), group),
      spans(o_weight.transpose(), a.v_width, known)};
  if (a.gate) parts.push_back(read(".gate.weight", a.v_width));
  const auto table = parameters.find(at + ".relative_bias");
  if (table != parameters.end()) parts.push_back(table->second.transpose());
  return side_by_side(parts);
}

Matrix<double> neuron_signatures(const Architecture& architecture, const std::string& at,
                                 const Parameters<double>& parameters, const Known& known) {
  const FeedForward& a = architecture.layer(layer_of(at)).ffn;
  const Matrix<double> x = probes("input", known);
  const bool relu = a.activation == Activation::relu || a.activation == Activation::relu_squared;
  const UpTo activated = relu ? UpTo::length : UpTo::nothing;
  const UpTo free = a.gated ? UpTo::factor : activated;
  const auto reads = [&](const char* name, UpTo up_to) {
    const Matrix<double>& weight = parameters.at(at + name + ".weight");
    return directions(linear(parameters, at + name, x), weight.colwise().squaredNorm().transpose(),
                      up_to);
  };
  Matrix<double> hidden = linear(parameters, at + (a.gated ? ".gate" : ".up"), x);
  activate(a.activation, hidden);
  if (a.gated) hidden = hidden.cwiseProduct(linear(parameters, at + ".up", x));
  const Matrix<double>& down = parameters.at(at + ".down.weight");
  const Matrix<double> written = probes("write", known) * down.transpose();
  // A neuron that does nothing still has its numbers.
  std::vector<Matrix<double>> parts = {hidden.cwiseProduct(written).transpose(), reads(".up", free),
                                       directions(written, down.rowwise().squaredNorm(), free)};
  if (a.gated) parts.push_back(reads(".gate", activated));
  const auto router = parameters.find(at + ".router.weight");
  if (router != parameters.end() && router->second.cols() > 1) {
    // What all logits have in common says nothing to a softmax.
    Matrix<double> logits = product(x, router->second);
    if (a.experts.scoring == Scoring::softmax) logits.colwise() -= logits.rowwise().mean().eval();
    parts.push_back(repeated(logits.transpose(), a.width));
  }
  if (const auto bias = parameters.find(at + ".selection.bias"); bias != parameters.end()) {
    parts.push_back(repeated(bias->second.transpose(), a.width));
  }
  return side_by_side(parts);
}

Matrix<double> unit_signatures(const Space& units, const Matrix<double>& weight,
                               const Known& known) {
  const auto kind = std::get<Scaling>(units.group).kind();
  const UpTo up_to = kind == Scaling::Kind::trivial    ? UpTo::nothing
                     : kind == Scaling::Kind::positive ? UpTo::length
                                                       : UpTo::factor;
  return directions(product(probes("input", known), weight),
                    weight.colwise().squaredNorm().transpose(), up_to);
}

std::vector<std::int64_t> match_rows(const Matrix<double>& b, const Matrix<double>& a,
                                     double rounding) {
  // A column of mere rounding says nothing.
  const double floor = kNothing * (a.norm() + b.norm()) + 1e-300;
  const Eigen::RowVectorXd sizes = a.colwise().norm().cwiseMax(b.colwise().norm()).array() + floor;
  const auto scaled = [&](const Matrix<double>& rows) -> Matrix<double> {
    const Matrix<double> in_units = rows.array().rowwise() / sizes.array();
    return in_units.array().isFinite().select(in_units, 0);
  };
  const Matrix<double> to = scaled(a), from = scaled(b);
  const auto count = to.rows();
  // Rows of `to` in the order of the column that spreads them most: the search goes outwards from
  // where a row would stand and ends when that column alone is further off than the best so far.
  Eigen::Index key = 0;
  (to.rowwise() - to.colwise().mean()).colwise().lpNorm<1>().maxCoeff(&key);
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::int64_t i, std::int64_t j) { return to(i, key) < to(j, key); });
  FreePlaces free(order);
  const double close = std::max(kEqualRounding * rounding, kEqual);
  // The free row that is nearest to from's row i, if it is nearer than `best`.
  const auto nearest_free = [&](std::int64_t i, double best) {
    const double enough = close * close * from.row(i).squaredNorm();
    const double own_key = from(i, key);
    std::int64_t nearest = -1;
    int more = kMoreThanEnough;
    const auto here =
        std::lower_bound(order.begin(), order.end(), own_key,
                         [&](std::int64_t j, double value) { return to(j, key) < value; });
    // Both ways, nearer ones first.
    const auto middle = here - order.begin();
    auto up = free.from(middle), down = free.before(middle);
    const auto key_at = [&](std::int64_t at) {
      return to(order[static_cast<std::size_t>(at)], key);
    };
    while (up < count || down >= 0) {
      const bool upwards =
          down < 0 || (up < count && key_at(up) - own_key < own_key - key_at(down));
      const std::int64_t j = order[static_cast<std::size_t>(upwards ? up : down)];
      const double first = to(j, key) - own_key;
      if (first * first > best || (best <= enough && more-- == 0)) break;
      const double distance = (to.row(j) - from.row(i)).squaredNorm();
      if (distance < best || (nearest < 0 && std::isinf(best))) {
        best = distance;
        nearest = j;
      }
      if (upwards) {
        up = free.from(up + 1);
      } else {
        down = free.before(down);
      }
    }
    return nearest;
  };
  // Rows that have no place much nearer than their own stay; the others go where there is room.
  std::vector<std::int64_t> permutation(static_cast<std::size_t>(count));
  std::vector<bool> stays(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const double own = (to.row(i) - from.row(i)).squaredNorm();
    auto& place = permutation[static_cast<std::size_t>(i)] = nearest_free(i, own / kLeavesItsPlace);
    if (place >= 0) continue;
    place = i;
    stays[static_cast<std::size_t>(i)] = true;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (stays[static_cast<std::size_t>(i)]) free.take(i);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (stays[static_cast<std::size_t>(i)]) continue;
    auto& place = permutation[static_cast<std::size_t>(i)];
    if (!free.has(place)) place = nearest_free(i, std::numeric_limits<double>::infinity());
    free.take(place);
  }
  return permutation;
}

}  // namespace regauge
