#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "equivalence/recover/tolerances.h"
#include "gauge.h"
#include "symmetry/procrustes.h"

namespace regauge {
namespace {

// Where the maps do not tell which coordinate of A one of B is, likeness of their gains does: it
// weighs little beside them.
Matrix<double> likeness_that_counts(const std::vector<Matrix<double>>& crosses,
                                    const Matrix<double>& likeness) {
  double size = 0;
  for (const Matrix<double>& cross : crosses) size = std::max(size, cross.cwiseAbs().maxCoeff());
  return size > 0 ? Matrix<double>(kTellsPlace * size * likeness) : likeness;
}

Matrix<double> stacked(const std::vector<Matrix<double>>& blocks) {
  const auto width = blocks.front().rows();
  Matrix<double> result(static_cast<Eigen::Index>(blocks.size()) * width, width);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    result.middleRows(static_cast<Eigen::Index>(i) * width, width) = blocks[i];
  }
  return result;
}

// The gains of q and k that one exchange moves: [query heads, d_k] and [1, d_k].
struct Gains {
  Matrix<double> q, k;

  Gains(const Parameters<double>& model, const std::string& at, std::int64_t width,
        std::int64_t exchange, std::int64_t exchanges) {
    const auto rows = [&](const char* name) {
      const Matrix<double>& all = model.at(at + name);
      const auto run = all.cols() / exchanges;
      const Matrix<double> part = all.middleCols(exchange * run, run);
      return Matrix<double>(part.reshaped<Eigen::RowMajor>(run / width, width).cwiseAbs());
    };
    q = rows(".q_norm.gain");
    k = rows(".k_norm.gain");
  }
};

// How much the gains of q and k that belong together are alike: 1 if equal, towards 0.
Matrix<double> likeness_of_gains(const Gains& a, const Gains& b) {
  const auto products = [&](const Gains& gains) -> Matrix<double> {
    return gains.q.colwise().sum().cwiseProduct(gains.k.row(0));
  };
  const Matrix<double> in_a = products(a), in_b = products(b);
  Matrix<double> likeness(in_b.cols(), in_a.cols());
  for (Eigen::Index i = 0; i < likeness.rows(); ++i) {
    for (Eigen::Index j = 0; j < likeness.cols(); ++j) {
      likeness(i, j) =
          (std::min(in_b(0, i), in_a(0, j)) + 1e-300) / (std::max(in_b(0, i), in_a(0, j)) + 1e-300);
    }
  }
  return likeness;
}

double ratio(double a, double b) { return a != 0 && b != 0 ? std::abs(a / b) : 1; }

// The pattern with what each coordinate's gains changed by; the two of a pair change alike.
Matrix<double> with_moduli(const GainExchange& group, const Matrix<double>& pattern, const Gains& a,
                           const Gains& b) {
  // A gain of q that is 0 tells nothing; then k's does, which changes the other way.
  const auto modulus = [&](Eigen::Index i) {
    Eigen::Index j = 0;
    pattern.row(i).cwiseAbs().maxCoeff(&j);
    const double of_q = a.q.col(j).sum();
    return of_q != 0 ? ratio(of_q, b.q.col(i).sum()) : 1 / ratio(a.k(0, j), b.k(0, i));
  };
  Eigen::VectorXd moduli(pattern.rows());
  for (Eigen::Index i = 0; i < pattern.rows(); ++i) moduli(i) = modulus(i);
  for (const auto& pairs : group.turning()) {
    for (const auto& pair : pairs) {
      auto both = moduli.segment(pair.first, 2);
      // Where neither gain of a coordinate tells, the pair's other one does.
      both.setConstant(both(0) == 1 ? both(1) : both(1) == 1 ? both(0) : both.mean());
    }
  }
  return moduli.asDiagonal() * pattern;
}

// A column of the head of `b` against every column of the same head of `a`, whatever their lengths.
Matrix<double> cross_of(const Matrix<double>& a, const Matrix<double>& b, std::int64_t head,
                        std::int64_t width) {
  const auto of_a = a.middleCols(head * width, width), of_b = b.middleCols(head * width, width);
  return of_b.transpose() * of_a / (of_b.norm() * of_a.norm() + 1e-300);
}

double length_ratio(const Matrix<double>& a, const Matrix<double>& b, std::int64_t head,
                    std::int64_t width) {
  return ratio(a.middleCols(head * width, width).norm(), b.middleCols(head * width, width).norm());
}

}  // namespace

Element recover_qk_norm(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& a,
                        const Parameters<double>& b) {
  const Attention& shape = symmetry.architecture.layer(layer).attention;
  const std::string at = fmt::format("layers.{}.attn", layer);
  const Matrix<double>&q_a = a.at(at + ".q.weight"), &q_b = b.at(at + ".q.weight");
  if (shape.shares_keys) {  // whose exchange and turns are known
    Element of_queries;
    if (symmetry.find_space(at + ".heads")->dimension() == 0) return of_queries;
    Matrix<double> lengths(shape.heads, 1);
    for (std::int64_t i = 0; i < shape.heads; ++i) {
      lengths(i, 0) = length_ratio(q_a, q_b, i, shape.qk_width);
    }
    of_queries.maps[at + ".heads"] = BlockMap<double>(shape.heads, 1, {}, lengths);
    return of_queries;
  }
  const Matrix<double>&k_a = a.at(at + ".k.weight"), &k_b = b.at(at + ".k.weight");
  const auto width = shape.qk_width;
  const auto group = shape.group();
  const auto crossed = [&](std::int64_t kv) {
    Matrix<double> cross = cross_of(k_a, k_b, kv, width);
    for (std::int64_t i = kv * group; i < (kv + 1) * group; ++i) {
      cross += cross_of(q_a, q_b, i, width);
    }
    return cross;
  };
  const Space& space = *symmetry.find_space(at + ".qk_gain");
  const auto& group_of_gains = std::get<GainExchange>(space.group);
  Element element;
  if (shape.qk_norm == QkNorm::joint) {
    Matrix<double> blocks(shape.kv_heads * width, width);
    for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      const Gains in_a(a, at, width, kv, space.count), in_b(b, at, width, kv, space.count);
      const Matrix<double> cross = crossed(kv);
      const Matrix<double> likeness = likeness_that_counts({cross}, likeness_of_gains(in_a, in_b));
      blocks.middleRows(kv * width, width) = with_moduli(
          group_of_gains, exchange_procrustes(group_of_gains, cross, likeness), in_a, in_b);
    }
    element.maps[at + ".qk_gain"] = BlockMap<double>(shape.kv_heads, width, {}, blocks);
    return element;
  }

  const bool lengths = symmetry.find_space(at + ".heads")->dimension() > 0;
  Matrix<double> head_lengths(shape.heads, 1), key_lengths(shape.kv_heads, 1);
  std::vector<Matrix<double>> crosses;
  for (std::int64_t i = 0; i < shape.heads; ++i) {
    head_lengths(i, 0) = length_ratio(q_a, q_b, i, width);
  }
  for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
    crosses.push_back(crossed(kv));
    key_lengths(kv, 0) = length_ratio(k_a, k_b, kv, width);
  }
  if (lengths) {
    element.maps[at + ".heads"] = BlockMap<double>(shape.heads, 1, {}, head_lengths);
    element.maps[at + ".k"] = BlockMap<double>(shape.kv_heads, 1, {}, key_lengths);
  }
  const Space& turning = *symmetry.find_space(at + ".turns");
  const Gains in_a(a, at, width, 0, 1), in_b(b, at, width, 0, 1);
  const TurnedExchange found =
      exchange_procrustes(group_of_gains, std::get<HalfTurns>(turning.group), crosses,
                          likeness_that_counts(crosses, likeness_of_gains(in_a, in_b)));
  element.maps[turning.name] = BlockMap<double>(shape.kv_heads, width, {}, stacked(found.turns));
  element.maps[at + ".qk_gain"] =
      BlockMap<double>(1, width, {}, with_moduli(group_of_gains, found.exchange, in_a, in_b));
  return element;
}

}  // namespace regauge
