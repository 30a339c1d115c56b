#include "procrustes.h"

#include <cmath>

#include "base/blas.h"
#include "numerics/assignment.h"
#include "numerics/dense.h"
#include "numerics/polar.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

void check_square(const Matrix<double>& cross) {
  if (cross.rows() != cross.cols() || !cross.allFinite()) {
    throw UsageError("[procrustes] the matrix is not square, or not finite");
  }
}

}  // namespace

Matrix<double> orthogonal_procrustes(const Orthogonal& group, const Matrix<double>& cross) {
  const Matrix<double>& fixed = group.fixed();
  if (fixed.rows() == 0) return polar_factor(cross);
  const Matrix<double> kept = product_transposed(fixed, fixed);
  const Matrix<double> free = Matrix<double>::Identity(kept.rows(), kept.cols()) - kept;
  // Block diagonal between what stays and the rest; so is its orthogonal factor.
  const Matrix<double> inside = product(free, product(cross, free));
  const double size = cross.norm() / std::sqrt(static_cast<double>(cross.rows()) + 1);
  return polar_factor(inside + (size > 0 ? size : 1.0) * kept);
}

BlockMap<double> signed_permutation_procrustes(const Matrix<double>& cross, bool signs) {
  check_square(cross);
  const auto n = cross.rows();
  Matrix<float> similarity = cross.cast<float>();
  if (signs) similarity = similarity.cwiseAbs().eval();
  const Assignment found = assign({n, similarity.data()});
  Matrix<double> numbers(n, 1);
  for (Eigen::Index i = 0; i < n; ++i) {
    numbers(i, 0) = cross(i, found.column_of_row[static_cast<std::size_t>(i)]) < 0 ? -1 : 1;
  }
  return {n, 1, found.column_of_row, signs ? numbers : Matrix<double>()};
}

}  // namespace regauge
