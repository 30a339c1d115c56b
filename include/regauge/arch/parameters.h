#pragma once

#include <map>
#include <string>

#include "regauge/arch/architecture.h"
#include "regauge/base/random.h"
#include "regauge/numerics/matrix.h"

namespace regauge {

// A whole model in the canonical form, by name. For models that fit in memory: tests, the lab,
// alignment of small models. Files go through Layout one tensor at a time.
template <class Scalar>
using Parameters = std::map<std::string, Matrix<Scalar>>;

template <class To, class From>
Parameters<To> cast(const Parameters<From>& parameters) {
  Parameters<To> result;
  for (const auto& [name, value] : parameters) result[name] = value.template cast<To>();
  return result;
}

// Generic values: weights normal with variance 1/rows (tables too), gains around 1 and never near
// 0, biases of order 0.3.
Parameters<double> random_parameters(const Architecture& architecture, std::uint64_t seed);

}  // namespace regauge
