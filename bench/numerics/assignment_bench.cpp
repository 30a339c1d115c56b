#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/blas.h"
#include "numerics/assignment.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

struct Square {
  std::int64_t n;
  std::vector<float> numbers;
};

// A^T B of the neurons of two models of width n / 3; the second has those of the first in another
// order, times `kinship`, and noise.
Square neurons(std::int64_t n, float kinship) {
  const std::int64_t width = n / 3;
  Random random(1, "bench");
  const std::vector<std::int64_t> order = random.permutation(n);
  std::vector<float> a(static_cast<std::size_t>(n * width));
  std::vector<float> b(a.size());
  for (float& x : a) x = static_cast<float>(random.normal());
  for (std::int64_t i = 0; i < n * width; ++i) {
    const std::int64_t from = order[static_cast<std::size_t>(i / width)] * width + i % width;
    b[static_cast<std::size_t>(i)] =
        kinship * a[static_cast<std::size_t>(from)] + static_cast<float>(random.normal());
  }
  Square s{n, std::vector<float>(static_cast<std::size_t>(n * n))};
  gemm<float>(false, true, n, n, width, 1, a.data(), width, b.data(), width, 0, s.numbers.data(),
              n);
  return s;
}

void run(benchmark::State& state, const Square& s, double relative_gap) {
  const Similarity similarity(s.n, s.numbers.data());
  Assignment assignment;
  for ([[maybe_unused]] auto _ : state) {
    assignment = assign(similarity, {.relative_gap = relative_gap});
  }
  const CertificateCheck check = check_certificate(similarity, assignment);
  state.counters["value"] = assignment.value;
  state.counters["gap"] = check.gap;
  state.counters["violation"] = check.violation;
}

// relative_gap is 1 / range(1), 0 if that is 0.
double gap_of(const benchmark::State& state) {
  return state.range(1) == 0 ? 0 : 1 / static_cast<double>(state.range(1));
}

void independent(benchmark::State& state) { run(state, neurons(state.range(0), 0), gap_of(state)); }
void noisy_copy(benchmark::State& state) { run(state, neurons(state.range(0), 2), gap_of(state)); }

BENCHMARK(independent)
    ->ArgNames({"n", "1/gap"})
    ->ArgsProduct({{1024, 4096}, {0, 1000}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(noisy_copy)
    ->ArgNames({"n", "1/gap"})
    ->ArgsProduct({{1024, 4096}, {0}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// A matrix of another program: raw floats, row by row, in the file REGAUGE_BENCH_MATRIX.
Square matrix_from_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error("cannot read " + path);
  const auto count = static_cast<std::int64_t>(file.tellg()) / 4;
  Square s{0, std::vector<float>(static_cast<std::size_t>(count))};
  while (s.n * s.n < count) ++s.n;
  file.seekg(0);
  file.read(reinterpret_cast<char*>(s.numbers.data()), count * 4);
  if (s.n * s.n != count || !file) throw std::runtime_error(path + " holds no square matrix");
  return s;
}

void register_file() {
  const char* path = std::getenv("REGAUGE_BENCH_MATRIX");
  if (path == nullptr) return;
  for (const std::int64_t inverse_gap : {0, 1000}) {
    benchmark::RegisterBenchmark(
        "file",
        [path](benchmark::State& state) { run(state, matrix_from_file(path), gap_of(state)); })
        ->ArgNames({"n", "1/gap"})
        ->Args({0, inverse_gap})
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
}
const bool kFileRegistered = (register_file(), true);

}  // namespace
}  // namespace regauge
