#pragma once

#include "regauge/arch/parameters.h"

namespace regauge {

// Adam's two moments of one matrix of coordinates. With one square for all of them a step does not
// depend on the basis: what is mostly noise in a coordinate stays as small as it is.
class Adam {
 public:
  explicit Adam(bool one_square = false) : one_square_(one_square) {}
  // The step down a slope, per unit of rate.
  Matrix<double> direction(const Matrix<double>& slope);

  std::int64_t steps = 0;
  Matrix<double> mean, square;

 private:
  bool one_square_;
};

}  // namespace regauge
