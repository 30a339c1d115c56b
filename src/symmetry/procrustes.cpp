#include "procrustes.h"

#include <algorithm>
#include <cmath>

#include "base/blas.h"
#include "numerics/assignment.h"
#include "numerics/dense.h"
#include "numerics/nested.h"
#include "numerics/polar.h"
#include "regauge/base/error.h"
#include "rotary_pairs.h"

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

Matrix<double> exchange_procrustes(const GainExchange& group, const Matrix<double>& cross,
                                   const Matrix<double>& moduli) {
  using Complex = std::complex<double>;
  check_square(cross);
  Matrix<double> result = Matrix<double>::Zero(cross.rows(), cross.cols());
  // Gives each member of a class its place, by what each two reach together.
  const auto place = [](const auto& members, const auto& reached, const auto& put) {
    const auto count = static_cast<Eigen::Index>(members.size());
    const auto at = [&](Eigen::Index i) { return members[static_cast<std::size_t>(i)]; };
    Matrix<double> worth(count, count);
    for (Eigen::Index i = 0; i < count; ++i) {
      for (Eigen::Index j = 0; j < count; ++j) worth(i, j) = reached(at(i), at(j));
    }
    const NestedAssignment places = assign_rows(worth);
    for (Eigen::Index i = 0; i < count; ++i) {
      put(at(i), at(places.target[static_cast<std::size_t>(i)]));
    }
  };
  // What a pair reaches by no turn or half a turn, and by a quarter turn to one side or the other.
  const auto upright = [&](const auto& p, const auto& q) {
    return 2 * std::abs(complex_part(cross, p, q).real()) + moduli(p.first, q.first) +
           moduli(p.first + 1, q.first + 1);
  };
  const auto sideways = [&](const auto& p, const auto& q) {
    return 2 * std::abs(complex_part(cross, p, q).imag()) + moduli(p.first, q.first + 1) +
           moduli(p.first + 1, q.first);
  };
  for (const auto& pairs : group.turning()) {
    place(
        pairs,
        [&](const auto& p, const auto& q) { return std::max(upright(p, q), sideways(p, q)); },
        [&](const auto& p, const auto& q) {
          const Complex z = complex_part(cross, p, q);
          put_complex(result, p, q,
                      sideways(p, q) > upright(p, q) ? Complex(0, z.imag() < 0 ? -1 : 1)
                                                     : Complex(z.real() < 0 ? -1 : 1, 0));
        });
  }
  for (const auto& coordinates : group.plain()) {
    place(
        coordinates, [&](auto i, auto j) { return std::abs(cross(i, j)) + moduli(i, j); },
        [&](auto i, auto j) { result(i, j) = cross(i, j) < 0 ? -1 : 1; });
  }
  return result;
}

Matrix<double> half_turns_procrustes(const HalfTurns& group, const Matrix<double>& cross,
                                     const Matrix<double>& exchange) {
  check_square(cross);
  const Eigen::VectorXd reached = cross.cwiseProduct(exchange).rowwise().sum();
  Matrix<double> turns = Matrix<double>::Identity(cross.rows(), cross.cols());
  for (const auto& run : group.runs()) {
    if (reached.segment(run.first, run.size).sum() < 0) {
      turns.diagonal().segment(run.first, run.size) *= -1;
    }
  }
  return turns;
}

// Each head turns so that what it adds is positive: the exchange is that of the sum of what the
// heads add, whatever their turns.
TurnedExchange exchange_procrustes(const GainExchange& group, const HalfTurns& turns,
                                   const std::vector<Matrix<double>>& crosses,
                                   const Matrix<double>& moduli) {
  using Complex = std::complex<double>;
  Matrix<double> sum = Matrix<double>::Zero(moduli.rows(), moduli.cols());
  for (const Matrix<double>& cross : crosses) {
    for (const auto& pairs : group.turning()) {
      for (const auto& p : pairs) {
        for (const auto& q : pairs) {
          const Complex z = complex_part(cross, p, q), before = complex_part(sum, p, q);
          put_complex(sum, p, q, before + Complex(std::abs(z.real()), std::abs(z.imag())));
        }
      }
    }
    for (const auto& coordinates : group.plain()) {
      for (const auto i : coordinates) {
        for (const auto j : coordinates) sum(i, j) += std::abs(cross(i, j));
      }
    }
  }
  TurnedExchange found{exchange_procrustes(group, sum, moduli), {}};
  for (const Matrix<double>& cross : crosses) {
    found.turns.push_back(half_turns_procrustes(turns, cross, found.exchange));
  }
  return found;
}

}  // namespace regauge
