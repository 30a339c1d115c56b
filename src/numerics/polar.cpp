#include "polar.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/blas.h"
#include "decompositions.h"
#include "dense.h"
#include "regauge/base/error.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

constexpr double kSpread = 1e-10;  // of a Gram matrix' eigenvalues: less is mostly rounding
constexpr double kSingular = 1e-13;
constexpr std::int64_t kLarge = 256;
constexpr int kMostSteps = 14;

// x -> scale (1.5 a x - 0.5 (a x)^3): of all cubics the one that brings singular values of
// [least, 1] nearest to 1 (Chen and Chow, A stable scaling of Newton-Schulz, 2014), in units of the
// largest value that it gives.
struct Cubic {
  double a, scale;
  static Cubic for_values_from(double least) {
    const double a = std::sqrt(3 / (1 + least + least * least));
    const Cubic best{a, 4 / (2 + least * (1 + least) * a * a * a)};
    return {a, best.scale / (2 - best(least))};
  }
  double operator()(double x) const { return scale * (1.5 * a * x - 0.5 * std::pow(a * x, 3)); }
};

// x^T x, its upper half only in blocks.
template <class Scalar>
Matrix<Scalar> gram_of(const Matrix<Scalar>& x) {
  constexpr std::int64_t kBlock = 256;
  const auto size = x.cols();
  Matrix<Scalar> gram(size, size);
  for (std::int64_t i = 0; i < size; i += kBlock) {
    const auto rows = std::min(kBlock, size - i), rest = size - i;
    multiply<Scalar>(true, x.middleCols(i, rows), x.rightCols(rest), gram.block(i, i, rows, rest));
    gram.block(i, i, rest, rows) = gram.block(i, i, rows, rest).transpose().eval();
  }
  return gram;
}

// By powers; of 20 the error is below ln(n) / 40 almost surely.
template <class Scalar>
Scalar largest_eigenvalue(const Matrix<Scalar>& gram) {
  Random random(0, "largest eigenvalue");
  Eigen::Vector<Scalar, Eigen::Dynamic> v(gram.rows());
  for (auto& entry : v) entry = static_cast<Scalar>(random.normal());
  Scalar value = 0;
  for (int i = 0; i < 20; ++i) {
    v.normalize();
    v = (gram * v).eval();
    value = v.norm();
  }
  return value;
}

// Newton and Schulz: products only. 0 if it has not converged, otherwise a lower bound of
// the reciprocal condition: the least value that the steps taken would have carried so near to 1.
template <class Scalar>
double by_products(Matrix<double>& m) {
  const auto tolerance = static_cast<Scalar>(std::is_same_v<Scalar, float> ? 3e-6 : 1e-9) *
                         static_cast<Scalar>(m.rows());
  Matrix<Scalar> x = m.cast<Scalar>();
  x /= static_cast<Scalar>(m.norm());
  Matrix<Scalar> gram = gram_of(x);
  const Scalar largest = std::sqrt(static_cast<Scalar>(1.3) * largest_eigenvalue(gram));
  x /= largest;
  gram /= largest * largest;
  std::vector<Cubic> steps;
  double least = 0.05;
  for (int step = 0; step < kMostSteps; ++step) {
    if (step > 0) gram = gram_of(x);
    gram.diagonal().array() -= Scalar{1};
    const Scalar off = gram.norm();
    if (!std::isfinite(off)) return 0;
    if (off < tolerance) {
      m = x.template cast<double>();
      double low = 0, high = 1;
      for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        double value = middle;
        for (const auto& cubic : steps) value = cubic(value);
        (value < 1 - 2 * static_cast<double>(tolerance) ? low : high) = middle;
      }
      return high;
    }
    gram.diagonal().array() += Scalar{1};
    const Cubic cubic = off < Scalar{0.5} ? Cubic{1, 1} : Cubic::for_values_from(least);
    steps.push_back(cubic);
    gram *= static_cast<Scalar>(-0.5 * cubic.scale * cubic.a * cubic.a * cubic.a);
    gram.diagonal().array() += static_cast<Scalar>(1.5 * cubic.scale * cubic.a);
    x = product(x, gram);
    least = std::min(cubic(least), 1.0);
  }
  return 0;
}

// Newton's iteration x -> (s x + (s x)^-T) / 2 with Higham's scaling, for any condition.
double by_inverses(Matrix<double>& m) {
  const auto size = m.rows();
  double condition = 0;
  for (int step = 0; step < 60; ++step) {
    if (step == 0) condition = reciprocal_condition(m);
    if (!(condition > kSingular)) return 0;
    const Matrix<double> dual = inverse(m).transpose();
    const double scale = std::sqrt(dual.norm() / m.norm());
    m = (scale * m + dual / scale) / 2;
    if ((gram_of(m) - Matrix<double>::Identity(size, size)).norm() < 0.1) break;
  }
  return condition;
}

// x -> x (3 - x^T x) / 2: an almost orthogonal matrix to the nearest one, error squared.
Matrix<double> polished(const Matrix<double>& x, const Matrix<double>& gram) {
  return product(x, 1.5 * Matrix<double>::Identity(x.rows(), x.rows()) - 0.5 * gram);
}

}  // namespace

// m (m^T m)^(-1/2), by the eigenvectors of the Gram matrix: two products and one symmetric
// eigenproblem, cheaper than singular values.
Matrix<double> polar_factor(const Matrix<double>& m) {
  if (m.rows() != m.cols() || !m.allFinite()) {
    throw UsageError("[polar] the matrix is not square, or not finite: it holds NaN or infinite");
  }
  const auto n = m.rows();
  if (n == 0) return m;
  Matrix<double> vectors = gram_of(m);
  Eigen::VectorXd values(n);
  symmetric_eigen(n, vectors.data(), values.data());
  if (!(values(0) > kSpread * values(n - 1))) {
    const Svd parts = svd(m);
    return product(parts.u, parts.v.transpose());
  }
  Matrix<double> scaled = vectors;
  for (Eigen::Index i = 0; i < n; ++i) scaled.row(i) /= std::sqrt(values(i));
  const Matrix<double> factor = product(m, product_transposed(vectors, scaled));
  return polished(factor, gram_of(factor));
}

double make_orthogonal(Matrix<double>& m, bool coarse) {
  const auto size = m.rows();
  double condition = 0;
  if (size >= kLarge) condition = coarse ? by_products<float>(m) : by_products<double>(m);
  if (condition == 0) condition = by_inverses(m);
  if (condition == 0) return 0;
  for (int step = 0; step < 6; ++step) {
    const Matrix<double> gram = gram_of(m);
    const double off = (gram - Matrix<double>::Identity(size, size)).norm();
    m = polished(m, gram);
    if (off < 1e-7) break;
  }
  return m.allFinite() ? condition : 0;
}

double nuclear_norm(const Matrix<double>& cross) {
  const auto n = cross.cols();
  Matrix<double> gram = cross.transpose() * cross;
  Eigen::VectorXd values(n);
  symmetric_eigen(n, gram.data(), values.data());
  return values.cwiseMax(0).cwiseSqrt().sum();
}

}  // namespace regauge
