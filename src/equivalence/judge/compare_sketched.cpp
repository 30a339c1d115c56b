#include <cmath>

#include "comparison.h"
#include "numerics/decompositions.h"
#include "whiteness.h"

namespace regauge {
namespace {

// A difference R is seen through R y, y a column of random signs: |R y|^2 is |R|^2 on average, row
// by row, and exactly so if a row has one entry. With 16 columns the worst case, a difference of
// rank one, is taken for less than a tenth of its size once in 10^13.
constexpr std::int64_t kDirections = 16;

// Orthonormal rows that span the columns of m, of which there are few.
Matrix<double> orthonormal_directions(const Matrix<double>& m) {
  const auto [values, vectors] = eigenpairs(m.transpose() * m);
  const double least = 1e-12 * values.maxCoeff();
  Matrix<double> rows(0, m.rows());
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    if (!(values(i) > least)) continue;
    rows.conservativeResize(rows.rows() + 1, Eigen::NoChange);
    rows.row(rows.rows() - 1) = (m * vectors.col(i)).transpose() / std::sqrt(values(i));
  }
  return rows;
}

class BySigns : public Comparison {
 public:
  BySigns(const Symmetry& symmetry, const Element& a_from_b, const ParameterSource& a,
          const ParameterSource& b, std::uint64_t seed)
      : Comparison(symmetry, a_from_b, a, b), seed_(seed) {}

 private:
  void judge(const TensorPlan& tensor, const MovedMatrix<float>& moved,
             TensorResidual& result) const override {
    matrix(tensor, moved, result);
  }
  void judge(const TensorPlan& tensor, const MovedMatrix<double>& moved,
             TensorResidual& result) const override {
    matrix(tensor, moved, result);
  }

  template <class Scalar>
  Matrix<Scalar> signs(const std::string& name, std::int64_t rows) const {
    Random random(seed_, "signs/" + name);
    Matrix<Scalar> result(rows, kDirections);
    for (auto& entry : result.template reshaped<Eigen::RowMajor>()) {
      entry = random.coin() ? Scalar{1} : Scalar{-1};
    }
    return result;
  }

  template <class Scalar>
  void matrix(const TensorPlan& tensor, const MovedMatrix<Scalar>& moved,
              TensorResidual& result) const {
    using Stored = StoredMatrix<Scalar>;
    const ParameterSpec& spec = tensor.spec;
    const std::string& name = spec.name;
    const Stored numbers_a(a_, spec);
    const Stored variances_a(a_, spec, Stored::Of::variances, gain_variance(a_, name));
    const Stored variances_b(b_, spec, Stored::Of::variances, gain_variance(b_, name));
    const MovedMatrix<Scalar> moved_variances =
        moved.variances([&](const Matrix<Scalar>& x) { return variances_b.left(x); },
                        [&](const Matrix<Scalar>& y) { return variances_b.right(y); });
    const auto constants = static_cast<Scalar>(constant_share(tensor));
    const auto weighed_twice = [&](Matrix<Scalar> variances) {
      variances *= constants;
      return read_part_.weighed(name, read_part_.weighed(name, std::move(variances)));
    };
    Whiteness::Seen seen;
    Whiteness whiteness;
    whiteness.most_hidden = most_hidden(a_, b_, name);
    whiteness.digits = std::is_same_v<Scalar, float> ? kFloatDigits : kDoubleDigits;

    const Matrix<Scalar> y = signs<Scalar>(name, spec.cols);
    const Matrix<Scalar> expected = numbers_a.right(y);
    whiteness.size = rms(read_part_.of(name, expected)) / std::sqrt(static_cast<double>(spec.cols));
    if (whiteness.size == 0) whiteness.size_b = rms(b_.read<Scalar>(name));
    seen.right = read_part_.of<Scalar>(name, expected - moved.right(y)).template cast<double>();
    // |A y|^2 is |A|^2 for every column, and more along a direction in which A is large.
    const Matrix<double> size_seen = read_part_.of(name, expected).template cast<double>();
    const Eigen::VectorXd along = eigenvalues(size_seen.transpose() * size_seen);
    seen.largest = std::sqrt(std::max(0.0, along.maxCoeff() - along.mean()) /
                             static_cast<double>(kDirections));
    const Matrix<Scalar> ones = Matrix<Scalar>::Ones(spec.cols, 1);
    seen.rows_a = weighed_twice(variances_a.right(ones)).template cast<double>().col(0);
    seen.rows_b = weighed_twice(moved_variances.right(ones)).template cast<double>().col(0);

    // The directions in which the difference was seen, and with them its columns. Rows count by
    // their rounding, so that one of large numbers does not stand for all.
    const Eigen::VectorXd rounding = (seen.rows_a + seen.rows_b).cwiseSqrt();
    const double least = std::max(1e-6 * rounding.maxCoeff(), 1e-300);
    const Eigen::VectorXd weights = rounding.cwiseMax(least).cwiseInverse();
    Matrix<double> x = orthonormal_directions(weights.asDiagonal() * seen.right);
    x = x * weights.asDiagonal();
    x /= x.norm() / std::sqrt(static_cast<double>(x.rows()));
    // x is applied to what is read of the difference: to the difference itself by the transpose.
    const Matrix<Scalar> from_left = read_part_.transposed(name, x).template cast<Scalar>();
    seen.left = (numbers_a.left(from_left) - moved.left(from_left)).template cast<double>();
    const Matrix<Scalar> squares =
        weighed_twice(Matrix<Scalar>(x.colwise().squaredNorm().transpose().template cast<Scalar>()))
            .transpose();
    seen.cols_a = variances_a.left(squares).template cast<double>().row(0);
    seen.cols_b = moved_variances.left(squares).template cast<double>().row(0);
    whiteness.judge(seen, result);
  }

  std::uint64_t seed_;
};

}  // namespace

std::vector<TensorResidual> compare_sketched(const Symmetry& symmetry, const Element& a_from_b,
                                             const ParameterSource& a, const ParameterSource& b,
                                             std::uint64_t seed, Progress& progress) {
  return compare_layers_sketched(symmetry, a_from_b, a, b, seed, {}, progress);
}

std::vector<TensorResidual> compare_layers_sketched(const Symmetry& symmetry,
                                                    const Element& a_from_b,
                                                    const ParameterSource& a,
                                                    const ParameterSource& b, std::uint64_t seed,
                                                    const Layers& only, Progress& progress) {
  return BySigns(symmetry, a_from_b, a, b, seed).run(progress, only);
}

}  // namespace regauge
