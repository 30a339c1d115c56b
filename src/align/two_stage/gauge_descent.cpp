#include "gauge_descent.h"

#include <complex>

#include "align/match/gauge_fit.h"
#include "numerics/brent.h"
#include "numerics/decompositions.h"
#include "numerics/polar.h"

namespace regauge {
namespace {

// One rotary pair of two models (theory.md section 6): the complex z = r e^(i phi) that minimises
//   |q_A - z q_B|^2 + |k_A - k_B / conj(z)|^2
// up to constants:  a r^2 + b / r^2 - 2 Re(conj(z) s + t / z),  columns as complex numbers.
struct RotaryPair {
  double a = 0;                 // |q_B|^2
  double b = 0;                 // |k_B|^2
  std::complex<double> s = {};  // sum of q_A conj(q_B)
  std::complex<double> t = {};  // sum of k_A conj(k_B)
};

// What is minimised, for the best angle at this radius.
double rotary_objective(const RotaryPair& pair, double radius) {
  return pair.a * radius * radius + pair.b / (radius * radius) -
         2 * std::abs(radius * pair.s + pair.t / radius);
}

// The best angle at this radius, with it.
std::complex<double> rotary_turn(const RotaryPair& pair, double radius) {
  const std::complex<double> sum = radius * pair.s + pair.t / radius;
  const double size = std::abs(sum);
  return size > 0 ? radius * sum / size : std::complex<double>(radius);
}

constexpr int kSteps = 400;
constexpr double kFlat = 1e-9;        // of the gradient, against the first one's scale
constexpr double kRadiusRange = 3.0;  // of log r, where Brent's method looks

Matrix<double> dual_of(const Matrix<double>& x) { return inverse(x).transpose(); }

Matrix<double> gradient(const TwoSides& s, const Matrix<double>& x) {
  const Matrix<double> y = dual_of(x);
  const Matrix<double> at_y = 2 * (s.gram_k * y - s.cross_k);
  return 2 * (s.gram_q * x - s.cross_q) - y * at_y.transpose() * y;
}

// Barzilai and Borwein's step lengths, shortened until the value falls.
Matrix<double> descend(const TwoSides& sides, const BlockGroup& group, Matrix<double> x) {
  const auto project = [&](const Matrix<double>& m) {
    return std::visit([&](const auto& g) { return g.project(m); }, group);
  };
  double value = sides.value(x);
  Matrix<double> slope = project(gradient(sides, x));
  const double scale = sides.gram_q.norm() + sides.gram_k.norm() + 1e-300;
  double length = 0.5 / scale;
  for (int step = 0; step < kSteps && slope.norm() > kFlat * scale; ++step) {
    Matrix<double> next = x - length * slope;
    double next_value = sides.value(next);
    int shorter = 0;
    while (!(next_value <= value - 1e-4 * length * slope.squaredNorm()) && shorter++ < 40) {
      length /= 2;
      next = x - length * slope;
      next_value = sides.value(next);
    }
    if (!(next_value <= value)) break;
    const Matrix<double> next_slope = project(gradient(sides, next));
    const Matrix<double> moved = next - x, turned = next_slope - slope;
    const double curvature = moved.cwiseProduct(turned).sum();
    length = curvature > 0 ? moved.squaredNorm() / curvature : 2 * length;
    x = next;
    slope = next_slope;
    value = next_value;
  }
  return x;
}

std::complex<double> entry(const Matrix<double>& m, Eigen::Index i) {
  return {(m(i, i) + m(i + 1, i + 1)) / 2, (m(i, i + 1) - m(i + 1, i)) / 2};
}

}  // namespace

TwoSides::TwoSides(std::int64_t width) {
  cross_q = gram_q = cross_k = gram_k = Matrix<double>::Zero(width, width);
}

double TwoSides::value(const Matrix<double>& x) const {
  const Matrix<double> y = dual_of(x);
  const double value = x.cwiseProduct(gram_q * x - 2 * cross_q).sum() +
                       y.cwiseProduct(gram_k * y - 2 * cross_k).sum();
  return std::isfinite(value) ? value : std::numeric_limits<double>::infinity();
}

Matrix<double> orthogonal_in_group(const TwoSides& sides, const BlockGroup& group) {
  const auto project = [&](const Matrix<double>& m) {
    return std::visit([&](const auto& g) { return g.project(m); }, group);
  };
  Matrix<double> cross = project(sides.cross_q + sides.cross_k);
  hold_unused(cross);
  return project(polar_factor(cross));
}

Matrix<double> descend_in_group(const TwoSides& sides, const BlockGroup& group) {
  Matrix<double> x = descend(sides, group, orthogonal_in_group(sides, group));
  const auto* rotary = std::get_if<RotaryCommutant>(&group);
  if (rotary == nullptr) return x;
  for (const auto& pairs : rotary->turning()) {
    if (pairs.size() != 1) continue;
    const auto i = pairs.front().first;
    const RotaryPair pair{sides.gram_q(i, i) + sides.gram_q(i + 1, i + 1),
                          sides.gram_k(i, i) + sides.gram_k(i + 1, i + 1),
                          2.0 * entry(sides.cross_q, i), 2.0 * entry(sides.cross_k, i)};
    if (!(pair.a > 0) || !(pair.b > 0)) continue;
    const double log_radius = brent_minimum(
        [&](double r) { return rotary_objective(pair, std::exp(r)); }, -kRadiusRange, kRadiusRange);
    const std::complex<double> z = rotary_turn(pair, std::exp(log_radius));
    x.block(i, i, 2, 2) << z.real(), z.imag(), -z.imag(), z.real();
  }
  return x;
}

}  // namespace regauge
