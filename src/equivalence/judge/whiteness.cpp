#include "whiteness.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <type_traits>

#include "chance.h"
#include "equivalence/rounding.h"
#include "io/sha256.h"
#include "numerics/decompositions.h"
#include "numerics/dense.h"

namespace regauge {
namespace {

constexpr double kStillHidden = 3;  // times rounding: more is a difference, however coarse it is
constexpr int kPowers = 6;
constexpr int kPowerVectors = 4;
constexpr Eigen::Index kBlock = Eigen::Index{1} << 16;  // numbers at a time: few enough for a cache

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

// The same numbers; a copy only of floats.
template <class Rows>
auto in_double(const Rows& rows) {
  if constexpr (std::is_same_v<typename Rows::Scalar, double>) {
    return MatrixView<double>(rows);
  } else {
    return Matrix<double>(rows.template cast<double>());
  }
}

// The squared matrix R^T R of an R that comes by pieces of rows. A single one is kept as it is, and
// read by blocks; of several, which are not to be held, their products are added up.
template <class Scalar>
class Squared {
 public:
  Squared(Eigen::Index rows, Eigen::Index cols) : rows_(rows), cols_(cols) {}

  Eigen::Index least_side() const { return std::min(rows_, cols_); }
  Eigen::Index cols() const { return cols_; }

  void add(Matrix<Scalar> rows) {
    if (rows.rows() == rows_) {
      whole_ = std::move(rows);
      return;
    }
    if (sum_.size() == 0) sum_ = Matrix<double>::Zero(cols_, cols_);
    const auto& wide = in_double(rows);
    sum_ += product_transposed(wide, wide);
  }

  // R^T R x, and the lengths of the columns of R x.
  struct Product {
    Matrix<double> vectors;
    Eigen::VectorXd lengths;
  };
  Product operator*(const Matrix<double>& x) const {
    if (whole_.size() == 0) return by_sum(x);
    Product result{Matrix<double>::Zero(cols_, x.cols()), Eigen::VectorXd::Zero(x.cols())};
    const Eigen::Index most = std::max<Eigen::Index>(1, kBlock / std::max<Eigen::Index>(cols_, 1));
    for (Eigen::Index first = 0; first < rows_; first += most) {
      const Eigen::Index count = std::min(most, rows_ - first);
      const auto& rows = in_double(whole_.middleRows(first, count));
      const Matrix<double> part = product(rows, x);
      result.vectors += product_transposed(rows, part);
      result.lengths += part.colwise().squaredNorm().transpose();
    }
    result.lengths = result.lengths.cwiseSqrt();
    return result;
  }

 private:
  // A length that is only the rounding of these sums counts as none.
  Product by_sum(const Matrix<double>& x) const {
    if (sum_.size() == 0)
      return {Matrix<double>::Zero(cols_, x.cols()), Eigen::VectorXd::Zero(x.cols())};
    constexpr double kDigits = 1e-10;
    Product result{product(sum_, x), Eigen::VectorXd::Zero(x.cols())};
    for (Eigen::Index j = 0; j < x.cols(); ++j) {
      const double square = x.col(j).dot(result.vectors.col(j));
      const double most = x.col(j).norm() * result.vectors.col(j).norm();
      if (square > kDigits * most) result.lengths(j) = std::sqrt(square);
    }
    return result;
  }

  Eigen::Index rows_, cols_;
  Matrix<Scalar> whole_;
  Matrix<double> sum_;
};

// The largest singular value of R, by powers of R^T R on a few vectors.
template <class Scalar>
double largest_singular(const Squared<Scalar>& squared, std::uint64_t seed) {
  const Eigen::Index k = std::min<Eigen::Index>(kPowerVectors, squared.least_side());
  Random random(seed, "direction");
  Matrix<double> x(squared.cols(), k);
  for (auto& entry : x.reshaped()) entry = random.normal();
  double largest = 0;
  for (int i = 0; i < kPowers; ++i) {
    const auto next = squared * x;
    x = next.vectors;
    for (Eigen::Index j = 0; j < k; ++j) {
      const double length = next.lengths(j);
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
  template <class Values>
  void add(Eigen::Index row, const Values& values) {
    rows(row) = values.template cast<double>().sum();
    cols += values.template cast<double>().transpose();
  }
  // The same sums of part_a a + part_b b + constant.
  static Sums of(double part_a, const Sums& a, double part_b, const Sums& b, double constant) {
    Sums result(a.rows.size(), a.cols.size());
    result.rows = (part_a * a.rows + part_b * b.rows).array() +
                  constant * static_cast<double>(result.cols.size());
    result.cols = (part_a * a.cols + part_b * b.cols).array() +
                  constant * static_cast<double>(result.rows.size());
    return result;
  }
  double root_mean() const {
    const auto count = static_cast<double>(rows.size()) * static_cast<double>(cols.size());
    return count > 0 ? std::sqrt(rows.sum() / count) : 0;
  }
};

// A difference of matrices against the variances of A's rounding and of B's.
template <class Scalar>
class Everywhere {
 public:
  explicit Everywhere(const Pieces<Scalar>& pieces)
      : pieces_(pieces), squares_(pieces.rows, pieces.cols), of_a_(squares_), of_b_(squares_) {
    Squared<Scalar> a(pieces.rows, pieces.cols);
    double squares_a = 0, squares_b = 0;
    Sha256 hash;
    pieces.for_each([&](Difference<Scalar>& piece) {
      add(hash, piece.off);
      for (Eigen::Index i = 0; i < piece.off.rows(); ++i) {
        squares_.add(piece.first + i, piece.off.row(i).template cast<double>().cwiseAbs2());
        of_a_.add(piece.first + i, piece.of_a.row(i));
        of_b_.add(piece.first + i, piece.of_b.row(i));
        squares_a += piece.a.row(i).template cast<double>().squaredNorm();
      }
      squares_b += piece.squares_b;
      a.add(std::move(piece.a));
    });
    const auto count = static_cast<double>(pieces.rows) * static_cast<double>(pieces.cols);
    seed_ = std::stoull(hash.finish().substr(0, 16), nullptr, 16);
    if (count == 0) return;
    size = std::sqrt(squares_a / count);
    size_b = std::sqrt(squares_b / count);
    largest_ = size > 0 ? largest_singular(a, seed_) / size : 0;
  }

  double size = 0, size_b = 0;
  double residual() const { return squares_.root_mean(); }
  double deviation_a() const { return of_a_.root_mean(); }
  double deviation_b() const { return of_b_.root_mean(); }

  Worst judge(double from_a, double from_b, double floor) const {
    const Sums variances = Sums::of(from_a, of_a_, from_b, of_b_, floor);
    const auto rows = static_cast<double>(pieces_.rows), cols = static_cast<double>(pieces_.cols);
    Worst worst;
    worst.take(deviation_ratio(squares_.rows.sum(), variances.rows.sum()) / kAcceptedWhole,
               "all of it");
    take_lines(squares_.rows, variances.rows, pieces_.cols, name(0), worst);
    take_lines(squares_.cols, variances.cols, pieces_.rows, name(1), worst);
    // An entry whose own rounding is small still has the element's uncertainty.
    const Eigen::VectorXd of_rows = variances.rows / cols;
    const Eigen::RowVectorXd of_cols = variances.cols.transpose() / rows;
    const double least = kLeastShare * of_rows.mean();
    Squared<Scalar> white(pieces_.rows, pieces_.cols);
    double entry = 0;
    Eigen::Index at[2] = {};
    pieces_.for_each([&](const Difference<Scalar>& piece) {
      Matrix<Scalar> white_rows(piece.off.rows(), piece.off.cols());
      for (Eigen::Index i = 0; i < piece.off.rows(); ++i) {
        const Eigen::RowVectorXd own = (from_a * piece.of_a.row(i).template cast<double>() +
                                        from_b * piece.of_b.row(i).template cast<double>())
                                           .array() +
                                       floor;
        const Eigen::RowVectorXd row = piece.off.row(i).template cast<double>().cwiseQuotient(
            own.cwiseMax(of_cols.cwiseMin(of_rows(piece.first + i))).cwiseMax(least).cwiseSqrt());
        white_rows.row(i) = row.template cast<Scalar>();
        Eigen::Index col = 0;
        const double most = row.cwiseAbs().maxCoeff(&col);
        if (!(most > entry)) continue;
        entry = most;
        at[0] = piece.first + i;
        at[1] = col;
      }
      white.add(std::move(white_rows));
    });
    if (pieces_.transposed) std::swap(at[0], at[1]);
    worst.take(entry / (kAcceptedEntry * largest_of(pieces_.rows * pieces_.cols)),
               fmt::format("entry ({}, {})", at[0], at[1]));
    worst.take(largest_singular(white, seed_) /
                   (kAcceptedDirection *
                    std::max(largest_, singular_by_chance(pieces_.rows, pieces_.cols))),
               "one direction");
    return worst;
  }

 private:
  // By runs of rows side by side, which is several times as fast as one after the other.
  static void add(Sha256& hash, const Matrix<Scalar>& rows) {
    constexpr std::size_t kRuns = 8;
    const auto bytes = std::as_bytes(std::span(rows.data(), static_cast<std::size_t>(rows.size())));
    std::array<ByteRange, kRuns> runs;
    for (std::size_t i = 0; i < kRuns; ++i) {
      const std::size_t first = bytes.size() * i / kRuns;
      runs[i] = bytes.subspan(first, bytes.size() * (i + 1) / kRuns - first);
    }
    for (const auto& digest : sha256_of_each(runs, [](auto...) {})) {
      hash.add(std::as_bytes(std::span(digest)));
    }
  }

  const char* name(int axis) const { return pieces_.transposed == (axis == 1) ? "row" : "column"; }

  const Pieces<Scalar>& pieces_;
  Sums squares_, of_a_, of_b_;
  double largest_ = 0;  // singular value of A, in units of its size
  // Where powers begin follows from the difference itself: nobody can make one at right angles to
  // all that they come to.
  std::uint64_t seed_ = 0;
};

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

template <class Scalar>
void judge_everywhere(const Pieces<Scalar>& pieces, Whiteness& whiteness, TensorResidual& result) {
  const Everywhere<Scalar> everywhere(pieces);
  whiteness.size = everywhere.size;
  whiteness.size_b = everywhere.size_b;
  result.residual = everywhere.residual();
  const double floor = std::pow(whiteness.digits * whiteness.size, 2);
  choose(
      whiteness, everywhere.deviation_a(), everywhere.deviation_b(),
      [&](double from_a, double from_b) { return everywhere.judge(from_a, from_b, floor); },
      result);
}

}  // namespace

template <class Scalar>
void Whiteness::judge(const Pieces<Scalar>& pieces, TensorResidual& result) {
  judge_everywhere(pieces, *this, result);
}
template void Whiteness::judge(const Pieces<float>&, TensorResidual&);
template void Whiteness::judge(const Pieces<double>&, TensorResidual&);

template <class Scalar>
void Whiteness::judge(Difference<Scalar> whole, TensorResidual& result) {
  judge(Pieces<Scalar>{whole.off.rows(), whole.off.cols(), false,
                       [&](const auto& visit) { visit(whole); }},
        result);
}
template void Whiteness::judge(Difference<float>, TensorResidual&);
template void Whiteness::judge(Difference<double>, TensorResidual&);

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
