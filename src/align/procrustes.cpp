#include "regauge/align/procrustes.h"

#include <cmath>

#include "regauge/align/assignment.h"
#include "regauge/base/blas.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

// Of the Gram matrix' eigenvalues: below it they are mostly rounding.
constexpr double kSpread = 1e-10;

void check_square(const Matrix<double>& cross) {
  if (cross.rows() != cross.cols() || !cross.allFinite()) {
    throw UsageError("[procrustes] the matrix is not square, or not finite");
  }
}

Matrix<double> by_svd(const Matrix<double>& cross) {
  const Svd parts = svd(cross);
  return product(parts.u, parts.v.transpose());
}

// x -> x (3 - x^T x) / 2: an almost orthogonal matrix to the nearest one, error squared.
Matrix<double> polished(const Matrix<double>& x) {
  const auto n = x.rows();
  return product(x, 1.5 * Matrix<double>::Identity(n, n) - 0.5 * product_transposed(x, x));
}

}  // namespace

// cross (cross^T cross)^(-1/2), by the eigenvectors of the Gram matrix: two products and one
// symmetric eigenproblem, cheaper than singular values.
Matrix<double> polar_factor(const Matrix<double>& cross) {
  check_square(cross);
  const auto n = cross.rows();
  if (n == 0) return cross;
  Matrix<double> vectors = product_transposed(cross, cross);
  Eigen::VectorXd values(n);
  symmetric_eigen(n, vectors.data(), values.data());
  if (!(values(0) > kSpread * values(n - 1))) return by_svd(cross);
  Matrix<double> scaled = vectors;
  for (Eigen::Index i = 0; i < n; ++i) scaled.row(i) /= std::sqrt(values(i));
  return polished(product(cross, product_transposed(vectors, scaled)));
}

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

double nuclear_norm(const Matrix<double>& cross) {
  const auto n = cross.cols();
  Matrix<double> gram = cross.transpose() * cross;
  Eigen::VectorXd values(n);
  symmetric_eigen(n, gram.data(), values.data());
  return values.cwiseMax(0).cwiseSqrt().sum();
}

}  // namespace regauge
