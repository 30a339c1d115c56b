#include "chance.h"

#include <algorithm>
#include <cmath>

namespace regauge {

double largest_of(std::int64_t count) {
  // P(|z| > x) < exp(-x^2 / 2): `count` times that is one in a million.
  return std::sqrt(
      2 * (std::log(static_cast<double>(std::max<std::int64_t>(count, 1))) + std::log(1e6)));
}

double largest_rms_of(std::int64_t count, std::int64_t freedom) {
  // Laurent and Massart: P(chi^2 > k + 2 sqrt(k t) + 2 t) < exp(-t).
  const double t = std::log(static_cast<double>(std::max<std::int64_t>(count, 1))) + std::log(1e6);
  const auto k = static_cast<double>(std::max<std::int64_t>(freedom, 1));
  return std::sqrt(1 + 2 * std::sqrt(t / k) + 2 * t / k);
}

double singular_by_chance(std::int64_t rows, std::int64_t cols) {
  // Davidson and Szarek: P(s > sqrt(rows) + sqrt(cols) + t) < exp(-t^2 / 2).
  return std::sqrt(static_cast<double>(rows)) + std::sqrt(static_cast<double>(cols)) +
         std::sqrt(2 * std::log(1e6));
}

}  // namespace regauge
