#pragma once

#include <cstddef>

#include "blas.h"

namespace regauge {

// The Fortran interface with 32-bit integers; the size_t at the end are gfortran's string lengths,
// which other compilers' libraries ignore.
template <class S>
using GemmFunction = void (*)(const char* transpose_a, const char* transpose_b, const int* m,
                              const int* n, const int* k, const S* alpha, const S* a,
                              const int* lda, const S* b, const int* ldb, const S* beta, S* c,
                              const int* ldc, std::size_t, std::size_t);
// xGELQF: A = L Q, factored in place.
template <class S>
using GelqfFunction = void (*)(const int* m, const int* n, S* a, const int* lda, S* tau, S* work,
                               const int* lwork, int* info);
// xORGLQ: Q out of the factors that xGELQF left.
template <class S>
using OrglqFunction = void (*)(const int* m, const int* n, const int* k, S* a, const int* lda,
                               const S* tau, S* work, const int* lwork, int* info);

// xSYEVD: eigenvalues and vectors of a symmetric matrix, in place.
template <class S>
using SyevdFunction = void (*)(const char* vectors, const char* triangle, const int* n, S* a,
                               const int* lda, S* values, S* work, const int* lwork, int* iwork,
                               const int* liwork, int* info, std::size_t, std::size_t);

// Null members: no library has them, use Eigen.
template <class S>
struct BlasFunctions {
  GemmFunction<S> gemm = nullptr;
  GelqfFunction<S> gelqf = nullptr;
  OrglqFunction<S> orglq = nullptr;
  SyevdFunction<S> syevd = nullptr;
};

struct BlasLibrary {
  BlasFunctions<float> single_precision;
  BlasFunctions<double> double_precision;
  BlasInfo info;
  // Of the whole library; null where it does not say, which is any but OpenBLAS.
  int (*threads)() = nullptr;
  void (*set_threads)(int) = nullptr;
  bool per_thread = false;  // OpenMP's OpenBLAS: each thread sets its own number
};

// The library of this process, loaded by the first call.
const BlasLibrary& blas_library();

}  // namespace regauge
