#include <benchmark/benchmark.h>

#include <vector>

#include "base/blas.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

template <class S>
std::vector<S> square(std::int64_t n) {
  Random random(1, "bench");
  std::vector<S> values(static_cast<std::size_t>(n * n));
  for (S& value : values) value = static_cast<S>(random.normal());
  return values;
}

template <class S>
void gemm_square(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const std::vector<S> a = square<S>(n);
  std::vector<S> c(a.size());
  for ([[maybe_unused]] auto _ : state) {
    gemm<S>(false, true, n, n, n, 1, a.data(), n, a.data(), n, 0, c.data(), n);
    benchmark::ClobberMemory();
  }
  const auto size = static_cast<double>(n);
  state.counters["flop"] =
      benchmark::Counter(2 * size * size * size, benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(blas_info().library + " " + blas_info().core);
}

template <class S>
void qr_square(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const std::vector<S> a = square<S>(n);
  for ([[maybe_unused]] auto _ : state) {
    std::vector<S> q = a;
    qr_orthogonal<S>(n, q.data());
    benchmark::DoNotOptimize(q.data());
  }
  state.SetLabel(blas_info().library + " " + blas_info().core);
}

BENCHMARK(gemm_square<float>)->Arg(64)->Arg(512)->Arg(2048)->UseRealTime();
BENCHMARK(gemm_square<double>)->Arg(64)->Arg(512)->Arg(2048)->UseRealTime();
BENCHMARK(qr_square<double>)->Arg(64)->Arg(512)->Arg(2048)->UseRealTime();

}  // namespace
}  // namespace regauge
