#include "whiteness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chance.h"
#include "regauge/symmetry/decompositions.h"
#include "rounding.h"

namespace regauge {
namespace {

constexpr double kStillHidden = 3;  // times rounding: more is a difference, however coarse it is
constexpr int kPowers = 6;
constexpr int kPowerVectors = 4;
constexpr Eigen::Index kBlockRows = 1024;

// The statistic that stands out most.
struct Worst {
  double excess = 0;
  std::string what;
  void take(double found, const std::string& name) {
    if (std::isnan(found)) found = HUGE_VAL;
    if (!(found > excess)) return;
    excess = found;
    what = name;
  }
};

double deviation_ratio(double squares, double variances) {
  if (squares == 0) return 0;
  return variances > 0 ? std::sqrt(squares / variances) : HUGE_VAL;
}

// Squares and variances of rows or columns, and the most that chance makes of their ratio.
template <class Vector>
void take_lines(const Vector& squares, const Vector& variances, std::int64_t freedom,
                const char* name, Worst& worst) {
  Eigen::Index at = 0;
  double most = 0;
  // An element that mixes numbers carries its error into lines of small rounding, too.
  const double least = kLeastShare * variances.mean();
  for (Eigen::Index i = 0; i < squares.size(); ++i) {
    const double found = deviation_ratio(squares(i), std::max(least, variances(i)));
    if (found > most) {
      most = found;
      at = i;
    }
  }
  worst.take(most / (kAcceptedRow * largest_rms_of(squares.size(), freedom)),
             fmt::format("{} {}", name, at));
}

// The largest singular value, by powers of R R^T on a few vectors. R is read by blocks of rows.
template <class Scalar>
double largest_singular(const Matrix<Scalar>& r) {
  const Eigen::Index k = std::min<Eigen::Index>(kPowerVectors, std::min(r.rows(), r.cols()));
  Random random(0, "direction");
  Matrix<double> x(r.cols(), k);
  for (auto& entry : x.reshaped()) entry = random.normal();
  double largest = 0;
  for (int i = 0; i < kPowers; ++i) {
    Matrix<double> y(r.rows(), k);
    Matrix<double> next = Matrix<double>::Zero(r.cols(), k);
    for (Eigen::Index first = 0; first < r.rows(); first += kBlockRows) {
      const Eigen::Index count = std::min(kBlockRows, r.rows() - first);
      const Matrix<double> rows = r.middleRows(first, count).template cast<double>();
      const Matrix<double> part = product(rows, x);
      next += product(Matrix<double>(rows.transpose()), part);
      y.middleRows(first, count) = part;
    }
    x = std::move(next);
    for (Eigen::Index j = 0; j < k; ++j) {
      const double length = y.col(j).norm();
      if (length > 0) largest = std::max(largest, x.col(j).norm() / length);
    }
    // Columns at right angles: one may not hide behind another.
    for (Eigen::Index j = 0; j < k; ++j) {
      for (Eigen::Index before = 0; before < j; ++before) {
        x.col(j) -= x.col(before).dot(x.col(j)) * x.col(before);
      }
      const double length = x.col(j).norm();
      if (length > 0) x.col(j) /= length;
    }
  }
  return largest;
}

// Sums over the rows and the columns of a matrix.
struct Sums {
  Eigen::VectorXd rows, cols;
  Sums(Eigen::Index row_count, Eigen::Index col_count)
      : rows(Eigen::VectorXd::Zero(row_count)), cols(Eigen::VectorXd::Zero(col_count)) {}
  void add(Eigen::Index row, const Eigen::RowVectorXd& values) {
    rows(row) = values.sum();
    cols += values.transpose();
  }
};

// `variances_of_row(i)` are those of the rounding of row i. One matrix of the size of `off` is made
// besides it: a table of all tokens may be as large as the rest of the model.
template <class Scalar, class VariancesOfRow>
Worst judge_all(double largest, const Matrix<Scalar>& off, const VariancesOfRow& variances_of_row) {
  Sums squares(off.rows(), off.cols()), variances(off.rows(), off.cols());
  for (Eigen::Index i = 0; i < off.rows(); ++i) {
    squares.add(i, off.row(i).template cast<double>().cwiseAbs2());
    variances.add(i, variances_of_row(i));
  }
  Worst worst;
  worst.take(deviation_ratio(squares.rows.sum(), variances.rows.sum()) / kAcceptedWhole,
             "all of it");
  take_lines(squares.rows, variances.rows, off.cols(), "row", worst);
  take_lines(squares.cols, variances.cols, off.rows(), "column", worst);
  // An entry whose own rounding is small still has the element's uncertainty.
  const Eigen::VectorXd of_rows = variances.rows / static_cast<double>(off.cols());
  const Eigen::RowVectorXd of_cols = variances.cols.transpose() / static_cast<double>(off.rows());
  const double least = kLeastShare * of_rows.mean();
  Matrix<Scalar> white(off.rows(), off.cols());
  double entry = 0;
  std::string where;
  for (Eigen::Index i = 0; i < off.rows(); ++i) {
    const Eigen::RowVectorXd row = off.row(i).template cast<double>().cwiseQuotient(
        variances_of_row(i).cwiseMax(of_cols.cwiseMin(of_rows(i))).cwiseMax(least).cwiseSqrt());
    white.row(i) = row.template cast<Scalar>();
    Eigen::Index col = 0;
    const double most = row.cwiseAbs().maxCoeff(&col);
    if (!(most > entry)) continue;
    entry = most;
    where = fmt::format("entry ({}, {})", i, col);
  }
  worst.take(entry / (kAcceptedEntry * largest_of(off.size())), where);
  worst.take(
      largest_singular(white) /
          (kAcceptedDirection * std::max(largest, singular_by_chance(off.rows(), off.cols()))),
      "one direction");
  return worst;
}

Worst judge_seen(double largest, const Whiteness::Seen& seen, const Eigen::VectorXd& rows,
                 const Eigen::RowVectorXd& cols, double floor_row, double floor_col) {
  const Eigen::Index directions = seen.right.cols();
  const Eigen::VectorXd row_variances =
      (rows.array() + floor_row) * static_cast<double>(directions);
  const Eigen::RowVectorXd col_variances = cols.array() + floor_col;
  Worst worst;
  const Eigen::VectorXd row_squares = seen.right.rowwise().squaredNorm();
  const Eigen::VectorXd col_squares = seen.left.colwise().squaredNorm().transpose();
  worst.take(deviation_ratio(row_squares.sum(), row_variances.sum()) / kAcceptedWhole, "all of it");
  take_lines(row_squares, row_variances, directions, "row", worst);
  const Eigen::VectorXd as_column = col_variances.transpose();
  take_lines(col_squares, as_column, seen.left.rows(), "column", worst);
  const auto seen_rows = static_cast<double>(seen.left.rows());
  const Matrix<double> white =
      seen.left * (col_variances.cwiseMax(kLeastShare * col_variances.mean()) / seen_rows)
                      .cwiseSqrt()
                      .cwiseInverse()
                      .asDiagonal();
  const Matrix<double> gram = white * white.transpose();
  worst.take(
      std::sqrt(std::max(0.0, eigenvalues(gram).maxCoeff())) /
          (kAcceptedDirection * std::max(largest, singular_by_chance(white.rows(), white.cols()))),
      "one direction");
  return worst;
}

template <class Judge>
void choose(const Whiteness& whiteness, double rms_a, double rms_b, const Judge& judge,
            TensorResidual& result) {
  const auto settle = [&](Relation relation, const Worst& worst, double rounding) {
    result.rounding = std::hypot(rounding, whiteness.digits * whiteness.size);
    result.excess = worst.excess;
    result.standing_out = worst.excess > 1 ? worst.what : std::string();
    const double size = whiteness.size > 0 ? whiteness.size : whiteness.size_b;
    const bool coarse = result.rounding > whiteness.most_hidden * size;
    if (worst.excess <= 1) {
      result.relation = coarse ? Relation::hidden : relation;
    } else {
      result.relation = coarse && result.residual < kStillHidden * result.rounding
                            ? Relation::hidden
                            : Relation::differs;
    }
    return result.agrees();
  };
  result.size = whiteness.size;
  if (result.residual == 0) {
    result.relation = Relation::equal;
    return;
  }
  if (settle(Relation::b_rounds_a, judge(0, 1), rms_b)) return;
  if (settle(Relation::a_rounds_b, judge(1, 0), rms_a)) return;
  settle(Relation::both_round, judge(1, 1), std::hypot(rms_a, rms_b));
}

}  // namespace

template <class Scalar>
void Whiteness::judge(Matrix<Scalar> a, const Matrix<Scalar>& off, const Matrix<Scalar>& of_a,
                      const Matrix<Scalar>& of_b, TensorResidual& result) const {
  result.residual = rms(off);
  const double largest = size > 0 ? largest_singular(a) / size : 0;
  a.resize(0, 0);
  const double floor = std::pow(digits * size, 2);
  const auto deviation = [](const Matrix<Scalar>& variances) {
    return std::sqrt(variances.template cast<double>().mean());
  };
  choose(
      *this, deviation(of_a), deviation(of_b),
      [&](double from_a, double from_b) {
        return judge_all(largest, off, [&](Eigen::Index i) -> Eigen::RowVectorXd {
          return (from_a * of_a.row(i).template cast<double>() +
                  from_b * of_b.row(i).template cast<double>())
                     .array() +
                 floor;
        });
      },
      result);
}
template void Whiteness::judge(Matrix<float>, const Matrix<float>&, const Matrix<float>&,
                               const Matrix<float>&, TensorResidual&) const;
template void Whiteness::judge(Matrix<double>, const Matrix<double>&, const Matrix<double>&,
                               const Matrix<double>&, TensorResidual&) const;

void Whiteness::judge(const Seen& seen, TensorResidual& result) const {
  const auto cols = static_cast<double>(seen.left.cols());
  const auto directions = static_cast<double>(seen.left.rows());
  result.residual =
      std::sqrt(seen.right.squaredNorm() / (static_cast<double>(seen.right.size()) * cols));
  const double floor = std::pow(digits * size, 2);
  choose(
      *this, std::sqrt(seen.rows_a.mean() / cols), std::sqrt(seen.rows_b.mean() / cols),
      [&](double a, double b) {
        return judge_seen(size > 0 ? seen.largest / size : 0, seen,
                          a * seen.rows_a + b * seen.rows_b, a * seen.cols_a + b * seen.cols_b,
                          cols * floor, directions * floor);
      },
      result);
}

}  // namespace regauge
