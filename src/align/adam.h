#pragma once

#include "regauge/arch/parameters.h"

namespace regauge {

// Adam's two moments of one matrix of coordinates.
class Adam {
 public:
  // The step down a slope, per unit of rate.
  Matrix<double> direction(const Matrix<double>& slope);

  std::int64_t steps = 0;
  Matrix<double> mean, square;
};

}  // namespace regauge
