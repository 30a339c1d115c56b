#include "base/blas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "regauge/base/error.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

template <class S>
std::vector<S> normals(std::int64_t count, const char* name) {
  Random random(7, name);
  std::vector<S> values(static_cast<std::size_t>(count));
  for (S& value : values) value = static_cast<S>(random.normal());
  return values;
}

// The product by its definition, in double.
template <class S>
void multiply_by_loops(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                       std::int64_t k, S alpha, const S* a, std::int64_t lda, const S* b,
                       std::int64_t ldb, S beta, S* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += double{transpose_a ? a[l * lda + i] : a[i * lda + l]} *
               double{transpose_b ? b[j * ldb + l] : b[l * ldb + j]};
      }
      const double old = beta == S(0) ? 0.0 : double{beta} * double{c[i * ldc + j]};
      c[i * ldc + j] = static_cast<S>(double{alpha} * sum + old);
    }
  }
}

template <class S>
class Gemm : public testing::Test {};
template <class S>
class Qr : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(Gemm, Scalars);
TYPED_TEST_SUITE(Qr, Scalars);

TYPED_TEST(Gemm, AgreesWithTheDefinition) {
  using S = TypeParam;
  struct Shape {
    std::int64_t m, n, k, padding;
  };
  const S tolerance = 200 * std::numeric_limits<S>::epsilon();
  for (const auto& [m, n, k, padding] :
       {Shape{1, 1, 1, 0}, Shape{3, 5, 7, 0}, Shape{65, 33, 47, 3}, Shape{1, 70, 20, 1}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const S alpha : {S(1), S(-0.5), S(0)}) {
          for (const S beta : {S(0), S(1), S(2)}) {
            const std::int64_t lda = (transpose_a ? m : k) + padding;
            const std::int64_t ldb = (transpose_b ? k : n) + padding;
            const std::int64_t ldc = n + padding;
            const auto a = normals<S>((transpose_a ? k : m) * lda, "a");
            const auto b = normals<S>((transpose_b ? n : k) * ldb, "b");
            auto found = normals<S>(m * ldc, "c");
            auto expected = found;
            gemm<S>(transpose_a, transpose_b, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta,
                    found.data(), ldc);
            multiply_by_loops<S>(transpose_a, transpose_b, m, n, k, alpha, a.data(), lda, b.data(),
                                 ldb, beta, expected.data(), ldc);
            for (std::size_t i = 0; i < found.size(); ++i) {
              ASSERT_NEAR(found[i], expected[i], tolerance)
                  << "m " << m << " n " << n << " k " << k << " transposed " << transpose_a
                  << transpose_b << " alpha " << alpha << " beta " << beta << " at " << i;
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(Gemm, DoesNotReadCWhenBetaIsZero) {
  using S = TypeParam;
  const std::vector<S> a = {1, 2, 3, 4};
  std::vector<S> c(4, std::numeric_limits<S>::quiet_NaN());
  gemm<S>(false, true, 2, 2, 2, 1, a.data(), 2, a.data(), 2, 0, c.data(), 2);
  EXPECT_EQ(c, (std::vector<S>{5, 11, 11, 25}));
}

TYPED_TEST(Gemm, EmptySumsScaleC) {
  using S = TypeParam;
  std::vector<S> c = {1, 2};
  gemm<S>(false, false, 1, 2, 0, 1, nullptr, 0, nullptr, 2, 3, c.data(), 2);
  EXPECT_EQ(c, (std::vector<S>{3, 6}));
  gemm<S>(false, false, 0, 2, 1, 1, nullptr, 1, nullptr, 2, 3, nullptr, 2);
}

TYPED_TEST(Gemm, RefusesSizesThatBlasCannotHold) {
  using S = TypeParam;
  S x = 1;
  const std::int64_t big = std::int64_t{1} << 31;
  EXPECT_THROW(gemm<S>(false, false, big, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1), UsageError);
  EXPECT_THROW(gemm<S>(false, false, 1, big, 1, 1, &x, 1, &x, big, 0, &x, big), UsageError);
  EXPECT_THROW(gemm<S>(false, false, 1, 1, big, 1, &x, big, &x, 1, 0, &x, 1), UsageError);
  EXPECT_THROW(gemm<S>(false, false, -1, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1), UsageError);
  EXPECT_THROW(gemm<S>(false, false, 1, 1, 2, 1, &x, 1, &x, 1, 0, &x, 1), UsageError);
  EXPECT_THROW(gemm<S>(true, false, 2, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1), UsageError);
  EXPECT_THROW(gemm<S>(false, false, 1, 2, 1, 1, &x, 1, &x, 1, 0, &x, 2), UsageError);
  EXPECT_THROW(gemm<S>(false, true, 1, 1, 2, 1, &x, 2, &x, 1, 0, &x, 1), UsageError);
  EXPECT_THROW(gemm<S>(false, false, 1, 2, 1, 1, &x, 1, &x, 2, 0, &x, 1), UsageError);
  EXPECT_THROW(qr_orthogonal<S>(big, &x), UsageError);
}

TYPED_TEST(Qr, GivesTheFactorWithPositiveDiagonal) {
  using S = TypeParam;
  for (const std::int64_t n : {1, 2, 5, 64, 131}) {
    const auto a = normals<S>(n * n, "a");
    auto q = a;
    qr_orthogonal<S>(n, q.data());
    std::vector<S> gram(a.size());
    std::vector<S> r(a.size());
    gemm<S>(true, false, n, n, n, 1, q.data(), n, q.data(), n, 0, gram.data(), n);
    gemm<S>(true, false, n, n, n, 1, q.data(), n, a.data(), n, 0, r.data(), n);
    const S tolerance = 40 * static_cast<S>(n) * std::numeric_limits<S>::epsilon();
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const auto at = static_cast<std::size_t>(i * n + j);
        ASSERT_NEAR(gram[at], i == j ? 1 : 0, tolerance) << "n " << n;
        if (i > j) {
          ASSERT_NEAR(r[at], 0, tolerance) << "n " << n;
        } else if (i == j) {
          ASSERT_GT(r[at], 0) << "n " << n;
        }
      }
    }
  }
}

TYPED_TEST(Qr, OfSmallMatrices) {
  using S = TypeParam;
  qr_orthogonal<S>(0, nullptr);
  std::vector<S> negative = {-3};
  qr_orthogonal<S>(1, negative.data());
  EXPECT_EQ(negative, (std::vector<S>{-1}));
  std::vector<S> turn = {0, -2, 5, 0};
  qr_orthogonal<S>(2, turn.data());
  EXPECT_NEAR(turn[1], -1, 1e-6);
  EXPECT_NEAR(turn[2], 1, 1e-6);
}

// Under the Haar measure of O(3) an entry has mean 0 and variance 1/3, and so has the trace: mean
// 0, variance 1. Without the sign fix the diagonal would lean to one side.
TEST(QrHaar, TraceHasMeanZeroAndVarianceOne) {
  constexpr int kDraws = 4000;
  Random random(11, "haar");
  double sum = 0;
  double squares = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> q(9);
    for (double& value : q) value = random.normal();
    qr_orthogonal<double>(3, q.data());
    const double trace = q[0] + q[4] + q[8];
    sum += trace;
    squares += trace * trace;
  }
  EXPECT_NEAR(sum / kDraws, 0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1, 10 / std::sqrt(kDraws));
}

TEST(BlasInfo, NamesTheLibrary) {
  const BlasInfo info = blas_info();
  EXPECT_FALSE(info.library.empty());
  EXPECT_GE(info.threads, 0);
  const char* wanted = std::getenv("REGAUGE_BLAS");
  if (wanted != nullptr) {
    EXPECT_EQ(info.library, wanted);
  }
}

TEST(BlasInfo, IsFastOrSaysWhyNot) {
  const BlasInfo info = blas_info();
  if (info.core.empty()) GTEST_SKIP() << info.library << " is no OpenBLAS";
  const char* forced = std::getenv("OPENBLAS_CORETYPE");
  if (forced == nullptr) {
    EXPECT_EQ(info.warning, "");
    EXPECT_STREQ(std::getenv("OPENBLAS_CORETYPE"), nullptr) << "the environment was changed";
    return;
  }
#if defined(__x86_64__)
  if (info.core != "Prescott" || !__builtin_cpu_supports("avx2")) GTEST_SKIP();
  EXPECT_NE(info.warning.find("Prescott"), std::string::npos) << info.warning;
  EXPECT_NE(info.warning.find("OPENBLAS_CORETYPE="), std::string::npos) << info.warning;
  EXPECT_EQ(info.note, "") << "the user's choice was overridden";
#endif
}

// In a child process, since a library is loaded once.
TEST(BlasDeathTest, NamesALibraryThatCannotBeLoaded) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("REGAUGE_BLAS", "libno_such_blas.so", 1);
        try {
          blas_info();
        } catch (const Error& error) {
          const std::string message = error.what();
          std::exit(message.find("libno_such_blas.so") != std::string::npos ? 42 : 1);
        }
        std::exit(2);
      },
      testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace regauge
