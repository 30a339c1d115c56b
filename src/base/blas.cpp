#include "blas.h"

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <type_traits>
#include <vector>

#include "blas_library.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

template <class S>
using RowMajor = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Matrix>
using Strided = Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class S>
const BlasFunctions<S>& blas_functions() {
  if constexpr (std::is_same_v<S, float>) {
    return blas_library().single_precision;
  } else {
    return blas_library().double_precision;
  }
}

// Products of fewer multiplications take less time than the threads of a BLAS may wait for a core.
constexpr double kLarge = 1 << 28;

// How many threads of this process want the BLAS on one, and what it had before the first of them.
std::mutex one_mutex;
int one_count = 0;
int threads_before = 0;

// Of this thread: scopes that ask for it, and whether it has asked the library yet. A library is
// not loaded for a scope in which nothing is multiplied.
thread_local int one_scopes = 0;
thread_local bool one_asked = false;
thread_local int own_before = 0;  // of a library in which each thread has a number of its own

void ask_for_one() {
  const BlasLibrary& library = blas_library();
  if (one_asked || library.threads == nullptr || library.set_threads == nullptr) return;
  one_asked = true;
  if (library.per_thread) {
    own_before = library.threads();
    return library.set_threads(1);
  }
  const std::lock_guard lock(one_mutex);
  if (one_count++ > 0) return;
  threads_before = library.threads();
  library.set_threads(1);
}

void give_back() {
  if (!one_asked) return;
  one_asked = false;
  if (blas_library().per_thread) return blas_library().set_threads(own_before);
  const std::lock_guard lock(one_mutex);
  if (--one_count == 0) blas_library().set_threads(threads_before);
}

// Around each call of the library.
class Call {
 public:
  explicit Call(double multiplications) {
    if (one_scopes > 0 || multiplications < kLarge) ask_for_one();
  }
  ~Call() {
    if (one_scopes == 0) give_back();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};

int checked_size(const char* function, const char* name, std::int64_t value) {
  if (value < 0 || value > std::numeric_limits<int>::max()) {
    throw UsageError(fmt::format("[{}] {} = {} is not in [0, 2^31)", function, name, value));
  }
  return static_cast<int>(value);
}

int checked_stride(const char* name, std::int64_t stride, std::int64_t row) {
  if (stride < row) {
    throw UsageError(
        fmt::format("[gemm] {} = {} is shorter than a row of {} numbers", name, stride, row));
  }
  return std::max(1, checked_size("gemm", name, stride));
}

template <class S>
void gemm_with_eigen(bool transpose_a, bool transpose_b, int m, int n, int k, S alpha, const S* a,
                     int lda, const S* b, int ldb, S beta, S* c, int ldc) {
  const Strided<const RowMajor<S>> left(a, transpose_a ? k : m, transpose_a ? m : k,
                                        Eigen::OuterStride<>(lda));
  const Strided<const RowMajor<S>> right(b, transpose_b ? n : k, transpose_b ? k : n,
                                         Eigen::OuterStride<>(ldb));
  Strided<RowMajor<S>> result(c, m, n, Eigen::OuterStride<>(ldc));
  if (beta == S(0)) {
    result.setZero();
  } else if (beta != S(1)) {
    result *= beta;
  }
  if (k == 0) return;
  if (transpose_a && transpose_b) {
    result.noalias() += alpha * left.transpose() * right.transpose();
  } else if (transpose_a) {
    result.noalias() += alpha * left.transpose() * right;
  } else if (transpose_b) {
    result.noalias() += alpha * left * right.transpose();
  } else {
    result.noalias() += alpha * left * right;
  }
}

template <class S>
void qr_with_eigen(int n, S* a) {
  Eigen::Map<RowMajor<S>> matrix(a, n, n);
  const Eigen::HouseholderQR<Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>> qr(matrix);
  const Eigen::Matrix<S, Eigen::Dynamic, 1> diagonal = qr.matrixQR().diagonal();
  matrix = qr.householderQ() * Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>::Identity(n, n);
  for (int j = 0; j < n; ++j) {
    if (diagonal(j) < S(0)) matrix.col(j) *= S(-1);
  }
}

// LAPACK reads the rows of a as columns, that is a^T = L Q' with L = R^T and Q' = Q^T; the Q' that
// it writes by columns is Q by rows.
template <class S>
void qr_with_lapack(const BlasFunctions<S>& lapack, int n, S* a) {
  const auto order = static_cast<std::size_t>(n);
  std::vector<S> tau(order);
  std::vector<S> diagonal(order);
  int info = 0;
  int query = -1;
  S factor_work = 0;
  S form_work = 0;
  lapack.gelqf(&n, &n, a, &n, tau.data(), &factor_work, &query, &info);
  lapack.orglq(&n, &n, &n, a, &n, tau.data(), &form_work, &query, &info);
  const int size = std::max({n, static_cast<int>(factor_work), static_cast<int>(form_work)});
  std::vector<S> work(static_cast<std::size_t>(size));
  lapack.gelqf(&n, &n, a, &n, tau.data(), work.data(), &size, &info);
  for (std::size_t i = 0; i < order; ++i) diagonal[i] = a[i * order + i];
  if (info == 0) {
    lapack.orglq(&n, &n, &n, a, &n, tau.data(), work.data(), &size, &info);
  }
  if (info != 0) throw Error(fmt::format("[qr_orthogonal] LAPACK answers info = {}", info));
  for (std::size_t i = 0; i < order; ++i) {
    for (std::size_t j = 0; j < order; ++j) {
      if (diagonal[j] < S(0)) a[i * order + j] = -a[i * order + j];
    }
  }
}

template <class S>
void eigen_with_eigen(int n, S* a, S* values) {
  Eigen::Map<RowMajor<S>> matrix(a, n, n);
  const Eigen::SelfAdjointEigenSolver<Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>> solver(
      matrix);
  matrix = solver.eigenvectors().transpose();
  std::copy_n(solver.eigenvalues().data(), n, values);
}

// The vectors that LAPACK writes by columns are rows here.
template <class S>
void eigen_with_lapack(const BlasFunctions<S>& lapack, int n, S* a, S* values) {
  int info = 0;
  int query = -1;
  S work_size = 0;
  int integers = 0;
  lapack.syevd("V", "L", &n, a, &n, values, &work_size, &query, &integers, &query, &info, 1, 1);
  // A float may not hold the size exactly.
  int size = static_cast<int>(work_size * S(1.0001)) + 1;
  std::vector<S> work(static_cast<std::size_t>(size));
  std::vector<int> integer_work(static_cast<std::size_t>(integers));
  lapack.syevd("V", "L", &n, a, &n, values, work.data(), &size, integer_work.data(), &integers,
               &info, 1, 1);
  if (info != 0) throw Error(fmt::format("[symmetric_eigen] LAPACK answers info = {}", info));
}

}  // namespace

OneBlasThread::OneBlasThread() { ++one_scopes; }

OneBlasThread::~OneBlasThread() {
  if (--one_scopes == 0) give_back();
}

template <class S>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          S alpha, const S* a, std::int64_t lda, const S* b, std::int64_t ldb, S beta, S* c,
          std::int64_t ldc) {
  const int rows = checked_size("gemm", "m", m);
  const int columns = checked_size("gemm", "n", n);
  const int inner = checked_size("gemm", "k", k);
  const int stride_a = checked_stride("lda", lda, transpose_a ? m : k);
  const int stride_b = checked_stride("ldb", ldb, transpose_b ? k : n);
  const int stride_c = checked_stride("ldc", ldc, n);
  if (rows == 0 || columns == 0) return;
  const BlasFunctions<S>& blas = blas_functions<S>();
  if (blas.gemm == nullptr) {
    gemm_with_eigen(transpose_a, transpose_b, rows, columns, inner, alpha, a, stride_a, b, stride_b,
                    beta, c, stride_c);
    return;
  }
  const Call call(static_cast<double>(rows) * columns * inner);
  // Fortran sees the transposes of all three: C^T = op(B)^T op(A)^T.
  blas.gemm(transpose_b ? "T" : "N", transpose_a ? "T" : "N", &columns, &rows, &inner, &alpha, b,
            &stride_b, a, &stride_a, &beta, c, &stride_c, 1, 1);
}

template <class S>
void qr_orthogonal(std::int64_t n, S* a) {
  const int order = checked_size("qr_orthogonal", "n", n);
  if (order == 0) return;
  const BlasFunctions<S>& blas = blas_functions<S>();
  if (blas.gelqf == nullptr || blas.orglq == nullptr) {
    qr_with_eigen(order, a);
  } else {
    const Call call(static_cast<double>(order) * order * order);
    qr_with_lapack(blas, order, a);
  }
}

template <class S>
void symmetric_eigen(std::int64_t n, S* a, S* values) {
  const int order = checked_size("symmetric_eigen", "n", n);
  if (order == 0) return;
  const BlasFunctions<S>& blas = blas_functions<S>();
  if (blas.syevd == nullptr) {
    eigen_with_eigen(order, a, values);
  } else {
    const Call call(static_cast<double>(order) * order * order);
    eigen_with_lapack(blas, order, a, values);
  }
}

BlasInfo blas_info() { return blas_library().info; }

template void gemm(bool, bool, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                   std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);
template void gemm(bool, bool, std::int64_t, std::int64_t, std::int64_t, double, const double*,
                   std::int64_t, const double*, std::int64_t, double, double*, std::int64_t);
template void qr_orthogonal(std::int64_t, float*);
template void qr_orthogonal(std::int64_t, double*);
template void symmetric_eigen(std::int64_t, float*, float*);
template void symmetric_eigen(std::int64_t, double*, double*);

}  // namespace regauge
