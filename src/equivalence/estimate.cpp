#include <cmath>

#include "comparison.h"
#include "regauge/symmetry/decompositions.h"

namespace regauge {
namespace {

// A residual R is seen through R y, y a column of random signs: |R y|^2 is |R|^2 on average, and
// exactly so if R has one entry. With 16 columns the worst case, a residual of rank one, is taken
// for less than a tenth of its size once in 10^13.
constexpr std::int64_t kColumns = 16;
constexpr std::int64_t kNoiseColumns = 4;

template <class Scalar>
Matrix<Scalar> signs(const std::string& name, std::int64_t rows, std::int64_t cols) {
  Random random(0, "signs/" + name);
  Matrix<Scalar> result(rows, cols);
  for (auto& entry : result.template reshaped<Eigen::RowMajor>()) {
    entry = random.coin() ? Scalar{1} : Scalar{-1};
  }
  return result;
}

// The root mean square over the entries of the matrix whose products with signs these are.
template <class Scalar>
double rms_seen(const Matrix<Scalar>& products, std::int64_t length) {
  return rms(products) / std::sqrt(static_cast<double>(length));
}

// [count, width] numbers of unit variance, times the root of a Gram matrix.
template <class Scalar>
Matrix<Scalar> correlated(Random& random, std::int64_t count, const Matrix<Scalar>& gram) {
  Matrix<double> even(count, gram.rows());
  for (auto& entry : even.reshaped()) entry = std::sqrt(3.0) * (2 * random.uniform() - 1);
  const auto [values, vectors] = eigenpairs(gram.template cast<double>());
  const Eigen::VectorXd roots = values.cwiseMax(0).cwiseSqrt();
  return (even * roots.asDiagonal() * vectors.transpose()).template cast<Scalar>();
}

// W and W + E, E of the size of rounding in every row: products with E are drawn as what they would
// be, as E itself has independent entries.
template <class Scalar>
class SeenMatrix {
 public:
  SeenMatrix(const ParameterSource& source, const ParameterSpec& spec, int draw)
      : name_(spec.name), draw_(draw), stored_(source, spec) {}

  Matrix<Scalar> right(const Matrix<Scalar>& y) const { return stored_.right(y); }
  MovedMatrix<Scalar> exact() const {
    return {stored_.rows(), stored_.cols(),
            [this](const Matrix<Scalar>& x) { return stored_.left(x); },
            [this](const Matrix<Scalar>& y) { return stored_.right(y); }};
  }
  MovedMatrix<Scalar> rounded(double rounding) const {
    return {
        stored_.rows(), stored_.cols(),
        [this, rounding](const Matrix<Scalar>& x) {
          const Matrix<Scalar> sizes = row_sizes(stored_.right(row_signs()));
          const Matrix<Scalar> felt = x * sizes.col(0).asDiagonal();
          Random random(static_cast<std::uint64_t>(draw_), "rounding/" + name_);
          return Matrix<Scalar>(
              stored_.left(x) +
              static_cast<Scalar>(rounding) *
                  correlated<Scalar>(random, stored_.cols(), felt * felt.transpose()).transpose());
        },
        [this, rounding](const Matrix<Scalar>& y) {
          Matrix<Scalar> both(y.rows(), y.cols() + kNoiseColumns);
          both << y, row_signs();
          const Matrix<Scalar> seen = stored_.right(both);
          const Matrix<Scalar> sizes = row_sizes(seen.rightCols(kNoiseColumns));
          Random random(static_cast<std::uint64_t>(draw_), "rounding/" + name_);
          return Matrix<Scalar>(seen.leftCols(y.cols()) +
                                static_cast<Scalar>(rounding) * sizes.col(0).asDiagonal() *
                                    correlated<Scalar>(random, stored_.rows(), y.transpose() * y));
        }};
  }

 private:
  // The root mean square of every row of W, about, as seen through signs.
  Matrix<Scalar> row_signs() const { return signs<Scalar>(name_, stored_.cols(), kNoiseColumns); }
  Matrix<Scalar> row_sizes(const Matrix<Scalar>& seen) const {
    return seen.rowwise().norm() /
           std::sqrt(static_cast<Scalar>(seen.cols()) * static_cast<Scalar>(stored_.cols()));
  }

  std::string name_;
  int draw_;
  StoredMatrix<Scalar> stored_;
};

class BySigns : public Comparison {
 public:
  using Comparison::Comparison;

 private:
  TensorResidual in_float(const TensorPlan& tensor) override { return matrix<float>(tensor); }
  TensorResidual in_double(const TensorPlan& tensor) override { return matrix<double>(tensor); }

  template <class Scalar>
  TensorResidual matrix(const TensorPlan& tensor) {
    const ParameterSpec& spec = tensor.spec;
    const Matrix<Scalar> y = signs<Scalar>(spec.name, spec.cols, kColumns);
    const Matrix<Scalar> few = y.leftCols(kNoiseColumns);
    const SeenMatrix<Scalar> before(models_.b, spec, draw_);
    MovedMatrix<Scalar> exact = before.exact(),
                        rounded = before.rounded(models_.rounding_b.of(tensor));
    exact_.transform(tensor, exact);
    shaken_.transform(tensor, rounded);
    const Matrix<Scalar> moved = exact.right(y);
    const Matrix<Scalar> noise = rounded.right(few) - moved.leftCols(kNoiseColumns);
    const Matrix<Scalar> expected = SeenMatrix<Scalar>(models_.a, spec, draw_).right(y);
    const auto read = [&](const Matrix<Scalar>& products) {
      return tensor.touched() ? models_.read_part.of(spec.name, products) : products;
    };
    TensorResidual result;
    result.tensor = spec.name;
    result.size = rms_seen<Scalar>(read(expected), spec.cols);
    result.residual = rms_seen<Scalar>(read(expected - moved), spec.cols);
    const Matrix<Scalar> rounded_a =
        tensor.touched() ? models_.read_part.weighed(spec.name, expected) : expected;
    result.rounding = std::hypot(models_.rounding_a.of(tensor) * rms_seen(rounded_a, spec.cols),
                                 rms_seen<Scalar>(read(noise), spec.cols));
    result.in_place = !tensor.touched();
    const double size_b = result.size > 0 ? 0 : rms_seen(before.right(few), spec.cols);
    result.blind = is_mostly_rounding(result, size_b);
    return result;
  }
};

}  // namespace

std::vector<TensorResidual> estimate(const Symmetry& symmetry, const Element& a_from_b,
                                     const ParameterSource& a, const ParameterSource& b,
                                     Progress& progress) {
  return compare_by<BySigns>(symmetry, a_from_b, a, b, progress);
}

}  // namespace regauge
