#include "regauge/symmetry/general_linear.h"

#include <fmt/format.h>

#include "numerics/decompositions.h"
#include "numerics/random_matrix.h"

namespace regauge {

std::string GeneralLinear::name() const { return fmt::format("GL({})", size_); }

Matrix<double> GeneralLinear::random(Random& random) const {
  return random_invertible(size_, random);
}

double GeneralLinear::violation(const Matrix<double>& matrix) const {
  if (!matrix.allFinite()) return 1;
  return is_invertible(matrix) ? 0 : 1;
}

}  // namespace regauge
