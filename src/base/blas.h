#pragma once

#include <cstdint>
#include <string>

namespace regauge {

// The large dense products. A BLAS/LAPACK is loaded on first use, not at start-up, and Eigen's own
// kernels stand in where there is none; docs/adr/0001-blas.md. Matrices are row-major, S is float
// or double. The environment variable REGAUGE_BLAS picks the library: a name or path for dlopen, or
// "eigen". The last bits of a result depend on the library and on its number of threads.

// C = alpha op(A) op(B) + beta C, op(X) = X or its transpose: op(A) is m x k, op(B) is k x n, C is
// m x n; lda, ldb, ldc are the row strides. With beta = 0, C is not read. Throws UsageError for a
// negative or too large (>= 2^31) size and for a stride shorter than a row.
template <class S>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          S alpha, const S* a, std::int64_t lda, const S* b, std::int64_t ldb, S beta, S* c,
          std::int64_t ldc);

// a (n x n) = Q R with Q orthogonal and the diagonal of R >= 0; a becomes Q. If the entries of a
// are independent standard normals, Q follows the Haar measure of O(n).
template <class S>
void qr_orthogonal(std::int64_t n, S* a);

// A symmetric a (n x n) = sum_i values_i v_i^T v_i, values ascending; row i of a becomes v_i.
template <class S>
void symmetric_eigen(std::int64_t n, S* a, S* values);

// While one lives, what this thread asks of the BLAS runs on one thread, as small products always
// do: on a busy machine the threads of a BLAS wait for each other longer than they work, and work
// that is spread over layers already has a thread for each core.
class OneBlasThread {
 public:
  OneBlasThread();
  ~OneBlasThread();
  OneBlasThread(const OneBlasThread&) = delete;
  OneBlasThread& operator=(const OneBlasThread&) = delete;
};

struct BlasInfo {
  std::string library;  // what was loaded: "libopenblas.so.0", or "eigen"
  std::string config;   // the library's own description of itself, or empty
  std::string core;     // the processor it chose its kernels for, or empty
  int threads = 1;      // 0 if the library does not say
  std::string note;     // what was put right while loading, or empty
  std::string warning;  // why the products are slow and what to do, or empty
};

// Loads the library if it is not loaded yet. Throws Error if REGAUGE_BLAS names one that cannot be.
BlasInfo blas_info();

}  // namespace regauge
