#include <fmt/format.h>

#include <cmath>

#include "gauge.h"

namespace regauge {
namespace {

// The signed permutation that a noisy one rounds to: the largest entry of each row, in free
// columns.
Matrix<double> signed_pattern(const Matrix<double>& matrix) {
  Matrix<double> pattern = Matrix<double>::Zero(matrix.rows(), matrix.cols());
  std::vector<bool> used(static_cast<std::size_t>(matrix.cols()));
  for (Eigen::Index i = 0; i < matrix.rows(); ++i) {
    Eigen::Index best = -1;
    for (Eigen::Index j = 0; j < matrix.cols(); ++j) {
      if (used[static_cast<std::size_t>(j)]) continue;
      if (best < 0 || std::abs(matrix(i, j)) > std::abs(matrix(i, best))) best = j;
    }
    used[static_cast<std::size_t>(best)] = true;
    pattern(i, best) = matrix(i, best) < 0 ? -1 : 1;
  }
  return pattern;
}

double ratio(double a, double b) { return a != 0 && b != 0 ? std::abs(a / b) : 1; }

// The pattern with what each coordinate's gains changed by; the two of a pair change alike.
Matrix<double> with_moduli(const Architecture& shape, Matrix<double> pattern,
                           const Matrix<double>& gain_a, const Matrix<double>& gain_b) {
  const auto column = [&](Eigen::Index i) {
    Eigen::Index j = 0;
    pattern.row(i).cwiseAbs().maxCoeff(&j);
    return j;
  };
  Eigen::VectorXd moduli(pattern.rows());
  for (Eigen::Index i = 0; i < pattern.rows(); ++i) {
    moduli(i) = ratio(gain_a(0, column(i)), gain_b(0, i));
  }
  for (const auto& pairs : RotaryClasses(shape.qk_width, shape.rotary_frequencies).turning) {
    for (const auto& pair : pairs)
      moduli.segment(pair.first, 2).setConstant(moduli.segment(pair.first, 2).mean());
  }
  return moduli.asDiagonal() * pattern;
}

}  // namespace

Element recover_qk_norm(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& a,
                        const Parameters<double>& b) {
  const Architecture& shape = symmetry.architecture;
  const std::string at = fmt::format("layers.{}.attn", layer);
  const Matrix<double>&q_a = a.at(at + ".q.weight"), &q_b = b.at(at + ".q.weight");
  const Matrix<double>&k_a = a.at(at + ".k.weight"), &k_b = b.at(at + ".k.weight");
  const auto width = shape.qk_width;
  const auto group = shape.heads / shape.kv_heads;
  const bool lengths = symmetry.find_space(at + ".heads")->dimension() > 0;
  Element element;

  Matrix<double> head_lengths(shape.heads, 1), key_lengths(shape.kv_heads, 1);
  Matrix<double> sum = Matrix<double>::Zero(width, width);
  for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
    const auto key_a = k_a.middleCols(kv * width, width), key_b = k_b.middleCols(kv * width, width);
    Matrix<double> cross = key_b.transpose() * key_a / (key_b.norm() * key_a.norm() + 1e-300);
    for (std::int64_t i = kv * group; i < (kv + 1) * group; ++i) {
      const auto head_a = q_a.middleCols(i * width, width),
                 head_b = q_b.middleCols(i * width, width);
      cross += head_b.transpose() * head_a / (head_b.norm() * head_a.norm() + 1e-300);
      head_lengths(i, 0) = ratio(head_a.norm(), head_b.norm());
    }
    // A kv head's sign is read against the heads before it; the first one's is a matter of taste.
    const double sign = cross.cwiseProduct(sum).sum() < 0 ? -1 : 1;
    sum += sign * cross;
    key_lengths(kv, 0) = sign * (lengths ? ratio(key_a.norm(), key_b.norm()) : 1);
  }
  if (lengths) element.maps[at + ".heads"] = BlockMap<double>(shape.heads, 1, {}, head_lengths);
  element.maps[at + ".k"] = BlockMap<double>(shape.kv_heads, 1, {}, key_lengths);

  element.maps[at + ".qk_gain"] =
      BlockMap<double>(1, width, {},
                       with_moduli(shape, signed_pattern(sum), a.at(at + ".q_norm.gain"),
                                   b.at(at + ".q_norm.gain")));
  return element;
}

}  // namespace regauge
