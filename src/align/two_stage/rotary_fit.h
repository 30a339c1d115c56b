#pragma once

#include <complex>
#include <span>

namespace regauge {

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
double rotary_objective(const RotaryPair& pair, double radius);
// The best angle at this radius, with it.
std::complex<double> rotary_turn(const RotaryPair& pair, double radius);

// The global minimum of every pair: of the positive roots of a polynomial of degree six the best.
// A pair with a = 0 or b = 0 has none; its radius stays 1.
void fit_rotary_pairs(std::span<const RotaryPair> pairs, std::span<std::complex<double>> fits);

}  // namespace regauge
