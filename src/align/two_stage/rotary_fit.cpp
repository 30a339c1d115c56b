#include "rotary_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr int kDegree = 6;
constexpr std::size_t kLanes = 8;  // pairs worked on side by side
constexpr int kRootSteps = 40;     // of simultaneous root finding
constexpr int kPolishSteps = 20;   // of Newton's method on the objective itself
constexpr double kNegligible =
    1e-10;  // of a coefficient: the root that it sends away is no minimum

using Lane = std::array<double, kLanes>;

// A pair in units in which a = b = 1: F(x) = x + 1/x - 2 sqrt(p x + q/x + 2w) with x = r^2.
struct Reduced {
  double scale = 1;  // radius = scale * sqrt(x)
  double p = 0, q = 0, w = 0;

  double inner(double x) const { return std::max(0.0, p * x + q / x + 2 * w); }
  double value(double x) const { return x + 1 / x - 2 * std::sqrt(inner(x)); }
};

Reduced reduce(const RotaryPair& pair) {
  Reduced reduced;
  if (!(pair.a > 0) || !(pair.b > 0)) return reduced;
  const double common = std::sqrt(pair.a * pair.b);
  reduced.scale = std::sqrt(std::sqrt(pair.b / pair.a));
  const std::complex<double> s = pair.s * (reduced.scale / common);
  const std::complex<double> t = pair.t / (reduced.scale * common);
  reduced.p = std::norm(s);
  reduced.q = std::norm(t);
  reduced.w = (s * std::conj(t)).real();
  return reduced;
}

// (x^2 - 1)^2 (p x^2 + 2w x + q) - x (p x^2 - q)^2, lowest coefficient first.
std::array<double, kDegree + 1> sextic(double p, double q, double w) {
  return {q, 2 * w - q * q, p - 2 * q, 2 * p * q - 4 * w, q - 2 * p, 2 * w - p * p, p};
}

// Ehrlich and Aberth's iteration on all roots of kLanes polynomials at once: z_i -= n_i / (1 - n_i
// sum_j 1 / (z_i - z_j)), n = f/f'. Started on circles between the bounds of their moduli.
struct Roots {
  std::array<Lane, kDegree> re, im;
};

void start(const std::array<Lane, kDegree + 1>& c, Roots& roots) {
  for (std::size_t l = 0; l < kLanes; ++l) {
    double largest = 0, reversed = 0;
    for (std::size_t k = 0; k < kDegree; ++k) {
      largest = std::max(largest, std::abs(c[k][l] / c[kDegree][l]));
      reversed = std::max(reversed, std::abs(c[k + 1][l] / c[0][l]));
    }
    const double high = std::log(1 + largest), low = -std::log(1 + reversed);
    for (std::size_t i = 0; i < kDegree; ++i) {
      const double modulus =
          std::exp(low + (high - low) * (static_cast<double>(i) + 0.5) / kDegree);
      const double angle = 0.4 + 2.4 * static_cast<double>(i);
      roots.re[i][l] = modulus * std::cos(angle);
      roots.im[i][l] = modulus * std::sin(angle);
    }
  }
}

void improve(const std::array<Lane, kDegree + 1>& c, Roots& roots) {
  constexpr double kTiny = 1e-290;
  for (std::size_t i = 0; i < kDegree; ++i) {
    Lane fr = c[kDegree], fi = {}, dr = {}, di = {}, sr = {}, si = {};
    for (std::size_t k = kDegree; k-- > 0;) {
      for (std::size_t l = 0; l < kLanes; ++l) {
        const double x = roots.re[i][l], y = roots.im[i][l];
        const double d = dr[l] * x - di[l] * y + fr[l];
        di[l] = dr[l] * y + di[l] * x + fi[l];
        dr[l] = d;
        const double f = fr[l] * x - fi[l] * y + c[k][l];
        fi[l] = fr[l] * y + fi[l] * x;
        fr[l] = f;
      }
    }
    for (std::size_t j = 0; j < kDegree; ++j) {
      if (j == i) continue;
      for (std::size_t l = 0; l < kLanes; ++l) {
        const double x = roots.re[i][l] - roots.re[j][l], y = roots.im[i][l] - roots.im[j][l];
        const double size = x * x + y * y + kTiny;
        sr[l] += x / size;
        si[l] -= y / size;
      }
    }
    // step = f / (f' - f s)
    for (std::size_t l = 0; l < kLanes; ++l) {
      const double nr = dr[l] - (fr[l] * sr[l] - fi[l] * si[l]);
      const double ni = di[l] - (fr[l] * si[l] + fi[l] * sr[l]);
      const double size = nr * nr + ni * ni + kTiny;
      const double step_r = (fr[l] * nr + fi[l] * ni) / size;
      const double step_i = (fi[l] * nr - fr[l] * ni) / size;
      roots.re[i][l] -= std::isfinite(step_r) ? step_r : 0;
      roots.im[i][l] -= std::isfinite(step_i) ? step_i : 0;
    }
  }
}

// Downhill from x, by Newton's method in log x: steps only that lower the value.
double polish(const Reduced& f, double x) {
  double value = f.value(x);
  for (int step = 0; step < kPolishSteps; ++step) {
    const double n = std::sqrt(f.inner(x));
    if (!(n > 0)) break;
    const double dn = (f.p * x - f.q / x) / (2 * n);
    const double first = x - 1 / x - 2 * dn;
    const double second = x + 1 / x - (f.p * x + f.q / x) / n + 2 * dn * dn / n;
    double move = second > 0 ? -first / second : (first > 0 ? -0.1 : 0.1);
    move = std::clamp(move, -1.0, 1.0);
    double next = x * std::exp(move);
    double next_value = f.value(next);
    for (int half = 0; half < 8 && !(next_value < value); ++half) {
      move /= 4;
      next = x * std::exp(move);
      next_value = f.value(next);
    }
    if (!(next_value < value)) break;
    x = next;
    value = next_value;
  }
  return x;
}

}  // namespace

double rotary_objective(const RotaryPair& pair, double radius) {
  return pair.a * radius * radius + pair.b / (radius * radius) -
         2 * std::abs(radius * pair.s + pair.t / radius);
}

std::complex<double> rotary_turn(const RotaryPair& pair, double radius) {
  const std::complex<double> sum = radius * pair.s + pair.t / radius;
  const double size = std::abs(sum);
  return size > 0 ? radius * sum / size : std::complex<double>(radius);
}

void fit_rotary_pairs(std::span<const RotaryPair> pairs, std::span<std::complex<double>> fits) {
  if (pairs.size() != fits.size()) {
    throw UsageError("[fit_rotary_pairs] as many fits as pairs");
  }
  for (std::size_t begin = 0; begin < pairs.size(); begin += kLanes) {
    const std::size_t count = std::min(kLanes, pairs.size() - begin);
    std::array<Reduced, kLanes> reduced;
    std::array<Lane, kDegree + 1> coefficients;
    for (std::size_t l = 0; l < kLanes; ++l) {
      reduced[l] = l < count ? reduce(pairs[begin + l]) : Reduced{};
      const double size = std::max({reduced[l].p, reduced[l].q, kNegligible});
      const auto c = sextic(std::max(reduced[l].p, kNegligible * size),
                            std::max(reduced[l].q, kNegligible * size), reduced[l].w);
      for (std::size_t k = 0; k <= kDegree; ++k) coefficients[k][l] = c[k];
    }
    Roots roots;
    start(coefficients, roots);
    for (int step = 0; step < kRootSteps; ++step) improve(coefficients, roots);
    for (std::size_t l = 0; l < count; ++l) {
      const Reduced& f = reduced[l];
      const RotaryPair& pair = pairs[begin + l];
      double best = 1;
      const auto consider = [&](double x) {
        if (x > 0 && std::isfinite(x) && f.value(x) < f.value(best)) best = x;
      };
      for (std::size_t i = 0; i < kDegree; ++i) consider(roots.re[i][l]);
      best = polish(f, best);
      const bool fits_exist = pair.a > 0 && pair.b > 0;
      fits[begin + l] = rotary_turn(pair, fits_exist ? f.scale * std::sqrt(best) : 1.0);
    }
  }
}

}  // namespace regauge
