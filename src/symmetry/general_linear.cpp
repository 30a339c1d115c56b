#include "regauge/symmetry/general_linear.h"

#include <fmt/format.h>

#include "regauge/symmetry/decompositions.h"

namespace regauge {

std::string GeneralLinear::name() const { return fmt::format("GL({})", size_); }

double GeneralLinear::violation(const Matrix<double>& matrix) const {
  if (!matrix.allFinite()) return 1;
  return is_invertible(matrix) ? 0 : 1;
}

}  // namespace regauge
