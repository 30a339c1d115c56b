#pragma once

#include <functional>

#include "equivalence/tolerances.h"
#include "regauge/equivalence/compare.h"

namespace regauge {

// A matrix A, A minus the moved B, and the variances of both roundings there; or some rows of
// these.
template <class Scalar>
struct Difference {
  Eigen::Index first = 0;  // row
  Matrix<Scalar> a, off, of_a, of_b;
  double squares_b = 0;  // of B's numbers as they are stored
};

// A difference by pieces of its rows, in order, whenever it is asked for: a table of all tokens may
// be too large to be held. A piece belongs to whoever it is shown to, but for one that is all of
// it, which is shown again.
template <class Scalar>
struct Pieces {
  Eigen::Index rows = 0, cols = 0;
  bool transposed = false;  // they are columns of the tensor
  std::function<void(const std::function<void(Difference<Scalar>&)>&)> for_each;
};

// Is a difference what rounding makes? Rounding is independent from number to number and its
// variance is known, so the whole, every row and column, every entry, and every direction have a
// largest size that chance gives them; edits of a model do not keep to that.
struct Whiteness {
  double size = 0;                   // root mean square of A's tensor
  double size_b = 0;                 // of B's as it is stored, which counts where A's is zero
  double digits = 0;                 // errors of the arithmetic, relative to it
  double most_hidden = kMostHidden;  // rounding that may be, relative to it

  // Tries B as the rounding of A, then A of B, then both of a third. Sets everything but the name,
  // and the sizes here. The element was read off numbers of this rounding: in the directions in
  // which A is large, so is its error.
  template <class Scalar>
  void judge(const Pieces<Scalar>& pieces, TensorResidual& result);
  // All of it at once.
  template <class Scalar>
  void judge(Difference<Scalar> whole, TensorResidual& result);

  // The same of products with `directions` vectors of random signs from the right, and then with
  // as many orthogonal ones from the left.
  struct Seen {
    double largest = 0;                 // about the largest singular value of A
    Matrix<double> right;               // off y, [rows, directions]
    Eigen::VectorXd rows_a, rows_b;     // variances of a column of it
    Matrix<double> left;                // x off, [directions, cols]
    Eigen::RowVectorXd cols_a, cols_b;  // sums over its rows of their variances
  };
  void judge(const Seen& seen, TensorResidual& result) const;
};

}  // namespace regauge
