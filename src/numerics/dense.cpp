#include "dense.h"

#include "base/blas.h"

namespace regauge {
namespace {

// Multiplications from which a call of BLAS pays.
constexpr std::int64_t kBlas = 1 << 14;

}  // namespace

template <class Scalar>
void multiply(bool transpose_a, const MatrixView<Scalar>& a, const MatrixView<Scalar>& b,
              Eigen::Ref<Matrix<Scalar>, 0, Eigen::OuterStride<>> c) {
  if (c.rows() > 1 && c.cols() > 1 && c.size() * b.rows() >= kBlas) {
    gemm<Scalar>(transpose_a, false, c.rows(), c.cols(), b.rows(), 1, a.data(), a.outerStride(),
                 b.data(), b.outerStride(), 0, c.data(), c.outerStride());
  } else if (transpose_a) {
    c.noalias() = a.transpose() * b;
  } else {
    c.noalias() = a * b;
  }
}
template void multiply(bool, const MatrixView<float>&, const MatrixView<float>&,
                       Eigen::Ref<Matrix<float>, 0, Eigen::OuterStride<>>);
template void multiply(bool, const MatrixView<double>&, const MatrixView<double>&,
                       Eigen::Ref<Matrix<double>, 0, Eigen::OuterStride<>>);

}  // namespace regauge
