#pragma once

#include <string>

#include "regauge/numerics/matrix.h"

namespace regauge {

// Any part of a matrix, seen row by row.
template <class Scalar>
using MatrixView = Eigen::Ref<const Matrix<Scalar>, 0, Eigen::OuterStride<>>;

// c = a b, or a^T b: through BLAS unless there is little to do. Instantiated for float and double.
template <class Scalar>
void multiply(bool transpose_a, const MatrixView<Scalar>& a, const MatrixView<Scalar>& b,
              Eigen::Ref<Matrix<Scalar>, 0, Eigen::OuterStride<>> c);

// a b
template <class A, class B>
Matrix<typename A::Scalar> product(const Eigen::MatrixBase<A>& a, const Eigen::MatrixBase<B>& b) {
  Matrix<typename A::Scalar> c(a.rows(), b.cols());
  multiply<typename A::Scalar>(false, a.derived(), b.derived(), c);
  return c;
}
// a^T b
template <class A, class B>
Matrix<typename A::Scalar> product_transposed(const Eigen::MatrixBase<A>& a,
                                              const Eigen::MatrixBase<B>& b) {
  Matrix<typename A::Scalar> c(a.cols(), b.cols());
  multiply<typename A::Scalar>(true, a.derived(), b.derived(), c);
  return c;
}

}  // namespace regauge
