#pragma once

#include "regauge/equivalence/compare.h"
#include "tolerances.h"

namespace regauge {

// Is a difference what rounding makes? Rounding is independent from number to number and its
// variance is known, so the whole, every row and column, every entry, and every direction have a
// largest size that chance gives them; edits of a model do not keep to that.
struct Whiteness {
  double size = 0;                   // root mean square of A's tensor
  double size_b = 0;                 // of B's as it is stored, which counts where A's is zero
  double digits = 0;                 // errors of the arithmetic, relative to it
  double most_hidden = kMostHidden;  // rounding that may be, relative to it

  // All [rows, cols]: A, A minus the moved B, and the variances of both roundings there. Tries B as
  // the rounding of A, then A of B, then both of a third. Sets everything but the name. The element
  // was read off numbers of this rounding: in the directions in which A is large, so is its error.
  template <class Scalar>
  void judge(Matrix<Scalar> a, const Matrix<Scalar>& off, const Matrix<Scalar>& of_a,
             const Matrix<Scalar>& of_b, TensorResidual& result) const;

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
