#include "regauge/symmetry/scaling.h"

#include <cmath>

namespace regauge {

std::string Scaling::name() const {
  switch (kind_) {
    case Kind::trivial:
      return "1";
    case Kind::signs:
      return "±1";
    case Kind::positive:
      return "R>0";
    case Kind::nonzero:
      return "R*";
  }
  return "";
}

Matrix<double> Scaling::random(Random& random) const {
  double value = is_continuous() ? std::exp2(1.2 * random.uniform() - 0.6) : 1;
  if (has_signs() && random.coin()) value = -value;
  return Matrix<double>::Constant(1, 1, value);
}

Matrix<double> Scaling::project(const Matrix<double>& matrix) const {
  return is_continuous() ? matrix : Matrix<double>::Zero(1, 1);
}

double Scaling::violation(const Matrix<double>& matrix) const {
  const double value = matrix(0, 0);
  if (!std::isfinite(value) || value == 0) return 1;
  switch (kind_) {
    case Kind::trivial:
      return std::abs(value - 1);
    case Kind::signs:
      return std::abs(std::abs(value) - 1);
    case Kind::positive:
      return value > 0 ? 0 : 1;
    case Kind::nonzero:
      return 0;
  }
  return 1;
}

}  // namespace regauge
