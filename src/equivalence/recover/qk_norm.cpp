#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gauge.h"

namespace regauge {
namespace {

// Of the largest entry: below it a matrix does not tell where a coordinate goes.
constexpr double kUndetermined = 1e-5;

// Places for `count` parts, the best pairs first: score(i, j) is larger the better i fits j.
template <class Score>
std::vector<std::size_t> assign(std::size_t count, const Score& score) {
  std::vector<std::size_t> to(count, count);
  std::vector<bool> used(count);
  for (std::size_t round = 0; round < count; ++round) {
    std::size_t best_i = count, best_j = count;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < count; ++j) {
        if (to[i] != count || used[j]) continue;
        if (best_i == count || score(i, j) > score(best_i, best_j)) best_i = i, best_j = j;
      }
    }
    to[best_i] = best_j;
    used[best_j] = true;
  }
  return to;
}

// The signed permutation, of those that a QK-norm admits, to which a noisy one rounds: pairs that
// turn alike change places and make quarter turns, coordinates at rest change places and signs.
// Where the matrix does not tell, `likeness` of coordinates in their gains does.
Matrix<double> signed_pattern(const Attention& shape, const Matrix<double>& matrix,
                              const Matrix<double>& likeness) {
  Matrix<double> pattern = Matrix<double>::Zero(matrix.rows(), matrix.cols());
  const double little = kUndetermined * matrix.cwiseAbs().maxCoeff() + 1e-300;
  const RotaryClasses classes(shape.qk_width, shape.rotary_frequencies);
  for (const auto& pairs : classes.turning) {
    // The part that commutes with rotations, a complex number.
    const auto number = [&](std::size_t i, std::size_t j) {
      const auto &p = pairs[i], &q = pairs[j];
      const auto at = [&](int k, int l) { return matrix(p.first + k, q.first + l); };
      return std::pair(at(0, 0) + p.sign * q.sign * at(1, 1),
                       q.sign * at(0, 1) - p.sign * at(1, 0));
    };
    // How well an upright and a turned pair fit.
    const auto scores = [&](std::size_t i, std::size_t j) {
      const auto like = [&](int k, int l) {
        return little * likeness(pairs[i].first + k, pairs[j].first + l);
      };
      const auto [re, im] = number(i, j);
      return std::pair(std::abs(re) + like(0, 0) + like(1, 1),
                       std::abs(im) + like(0, 1) + like(1, 0));
    };
    const auto to = assign(pairs.size(), [&](std::size_t i, std::size_t j) {
      const auto [upright, turned] = scores(i, j);
      return std::max(upright, turned);
    });
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const auto &p = pairs[i], &q = pairs[to[i]];
      const auto [re, im] = number(i, to[i]);
      const auto [upright, other] = scores(i, to[i]);
      const bool turned = other > upright;
      const double sign = (turned ? im : re) < 0 ? -1 : 1;
      if (turned) {
        pattern(p.first, q.first + 1) = sign * q.sign;
        pattern(p.first + 1, q.first) = -sign * p.sign;
      } else {
        pattern(p.first, q.first) = sign;
        pattern(p.first + 1, q.first + 1) = sign * p.sign * q.sign;
      }
    }
  }
  for (const auto& places : classes.real()) {
    const auto entry = [&](std::size_t i, std::size_t j) { return matrix(places[i], places[j]); };
    const auto to = assign(places.size(), [&](std::size_t i, std::size_t j) {
      return std::abs(entry(i, j)) + little * likeness(places[i], places[j]);
    });
    for (std::size_t i = 0; i < places.size(); ++i) {
      pattern(places[i], places[to[i]]) = entry(i, to[i]) < 0 ? -1 : 1;
    }
  }
  return pattern;
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
Matrix<double> with_moduli(const Attention& shape, const Matrix<double>& pattern, const Gains& a,
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
  for (const auto& pairs : RotaryClasses(shape.qk_width, shape.rotary_frequencies).turning) {
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
  const std::int64_t exchanges = symmetry.find_space(at + ".qk_gain")->count;
  const auto exchange = [&](const Matrix<double>& cross, std::int64_t index) {
    const Gains in_a(a, at, width, index, exchanges), in_b(b, at, width, index, exchanges);
    return with_moduli(shape, signed_pattern(shape, cross, likeness_of_gains(in_a, in_b)), in_a,
                       in_b);
  };
  Element element;
  if (shape.qk_norm == QkNorm::joint) {
    Matrix<double> blocks(shape.kv_heads * width, width);
    for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      blocks.middleRows(kv * width, width) = exchange(crossed(kv), kv);
    }
    element.maps[at + ".qk_gain"] = BlockMap<double>(shape.kv_heads, width, {}, blocks);
    return element;
  }

  const bool lengths = symmetry.find_space(at + ".heads")->dimension() > 0;
  Matrix<double> head_lengths(shape.heads, 1), key_lengths(shape.kv_heads, 1);
  Matrix<double> sum = Matrix<double>::Zero(width, width);
  for (std::int64_t i = 0; i < shape.heads; ++i) {
    head_lengths(i, 0) = length_ratio(q_a, q_b, i, width);
  }
  for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
    const Matrix<double> cross = crossed(kv);
    // A kv head's sign is read against the heads before it; the first one's is a matter of taste.
    const double sign = cross.cwiseProduct(sum).sum() < 0 ? -1 : 1;
    sum += sign * cross;
    key_lengths(kv, 0) = sign * (lengths ? length_ratio(k_a, k_b, kv, width) : 1);
  }
  if (lengths) element.maps[at + ".heads"] = BlockMap<double>(shape.heads, 1, {}, head_lengths);
  element.maps[at + ".k"] = BlockMap<double>(shape.kv_heads, 1, {}, key_lengths);
  element.maps[at + ".qk_gain"] = BlockMap<double>(1, width, {}, exchange(sum, 0));
  return element;
}

}  // namespace regauge
