// The polar factor beside LAPACK-quality singular values.
#include <Eigen/SVD>
#include <benchmark/benchmark.h>

#include "numerics/polar.h"
#include "numerics/random_matrix.h"

namespace regauge {
namespace {

Matrix<double> gaussian(std::int64_t n) {
  Random random(1, "gaussian");
  return random_gaussian(n, random);
}

void polar(benchmark::State& state) {
  const Matrix<double> cross = gaussian(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(polar_factor(cross));
}
BENCHMARK(polar)->Arg(64)->Arg(256)->Arg(512)->Unit(benchmark::kMillisecond);

void polar_by_singular_values(benchmark::State& state) {
  const Matrix<double> cross = gaussian(state.range(0));
  for (auto _ : state) {
    const Eigen::BDCSVD<Eigen::MatrixXd> svd(cross, Eigen::ComputeFullU | Eigen::ComputeFullV);
    const Matrix<double> factor = svd.matrixU() * svd.matrixV().transpose();
    benchmark::DoNotOptimize(factor.data());
  }
}
BENCHMARK(polar_by_singular_values)->Arg(64)->Arg(256)->Arg(512)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace regauge
