#pragma once

#include <string>

#include "numerics/dense.h"
#include "regauge/arch/parameters.h"

namespace regauge {

// x W + b, by the name of the linear map; not every one has a bias.
template <class Scalar>
Matrix<Scalar> linear(const Parameters<Scalar>& parameters, const std::string& name,
                      const Matrix<Scalar>& x) {
  Matrix<Scalar> y = product(x, parameters.at(name + ".weight"));
  const auto bias = parameters.find(name + ".bias");
  if (bias != parameters.end()) y.rowwise() += bias->second.row(0);
  return y;
}

}  // namespace regauge
