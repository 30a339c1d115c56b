#include "regauge/symmetry/general_linear.h"

#include <Eigen/LU>
#include <fmt/format.h>

namespace regauge {

std::string GeneralLinear::name() const { return fmt::format("GL({})", size_); }

double GeneralLinear::violation(const Matrix<double>& matrix) const {
  if (!matrix.allFinite()) return 1;
  return matrix.fullPivLu().isInvertible() ? 0 : 1;
}

}  // namespace regauge
