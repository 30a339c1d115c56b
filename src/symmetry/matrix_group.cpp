#include "regauge/symmetry/matrix_group.h"

#include <cmath>

namespace regauge {

double log2_factorial(std::int64_t n) {
  return std::lgamma(static_cast<double>(n) + 1) / std::log(2.0);
}

}  // namespace regauge
