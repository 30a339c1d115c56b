#pragma once

#include <cmath>

namespace regauge {

// A minimum of f in [low, high] by Brent's method (Algorithms for Minimization without
// Derivatives, chapter 5): local, to about the square root of rounding.
template <class Function>
double brent_minimum(const Function& f, double low, double high) {
  constexpr double kGolden = 0.3819660112501051;
  constexpr double kTolerance = 1e-9;
  double x = low + kGolden * (high - low), w = x, v = x;
  double fx = f(x), fw = fx, fv = fx;
  double step = 0, before = 0;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    const double least = kTolerance * std::abs(x) + 1e-12;
    if (std::abs(x - middle) <= 2 * least - (high - low) / 2) break;
    bool parabola = false;
    if (std::abs(before) > least) {
      const double r = (x - w) * (fx - fv);
      double q = (x - v) * (fx - fw);
      double p = (x - v) * q - (x - w) * r;
      q = 2 * (q - r);
      if (q > 0) p = -p;
      q = std::abs(q);
      parabola = std::abs(p) < std::abs(q * before / 2) && p > q * (low - x) && p < q * (high - x);
      if (parabola) {
        before = step;
        step = p / q;
      }
    }
    if (!parabola) {
      before = x < middle ? high - x : low - x;
      step = kGolden * before;
    }
    const double u = std::abs(step) >= least ? x + step : x + (step > 0 ? least : -least);
    const double fu = f(u);
    if (fu <= fx) {
      (u < x ? high : low) = x;
      v = w, fv = fw;
      w = x, fw = fx;
      x = u, fx = fu;
    } else {
      (u < x ? low : high) = u;
      if (fu <= fw || w == x) {
        v = w, fv = fw;
        w = u, fw = fu;
      } else if (fu <= fv || v == x || v == w) {
        v = u, fv = fu;
      }
    }
  }
  return x;
}

}  // namespace regauge
