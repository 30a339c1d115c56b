// Processor seconds of each phase of a diff, and of bare BLAS for products of the same size:
// diff_phases A B prints one JSON record.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ctime>

#include "regauge/base/blas.h"
#include "regauge/equivalence/compare.h"
#include "regauge/equivalence/recover.h"

namespace {

double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <class Work>
double time_of(Work work) {
  const double begin = seconds();
  work();
  return seconds() - begin;
}

// Numbers per second through a product of [rows, inner] and [inner, cols] floats.
double flops_per_second(std::int64_t rows, std::int64_t cols, std::int64_t inner) {
  const auto size = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
  const std::vector<float> a(size(rows, inner), 0.5F), b(size(inner, cols), 0.5F);
  std::vector<float> c(size(rows, cols));
  const auto product = [&] {
    regauge::gemm<float>(false, false, rows, cols, inner, 1, a.data(), inner, b.data(), cols, 0,
                         c.data(), cols);
  };
  product();
  const double used = time_of([&] {
    for (int i = 0; i < 3; ++i) product();
  });
  return 6.0 * static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(inner) /
         used;
}

}  // namespace

int main(int count, char** names) {
  if (count != 3) return 2;
  using namespace regauge;
  const Model a = Model::open(names[1]), b = Model::open(names[2]);
  const Architecture shape = joint_architecture(a.architecture, b.architecture);
  const Symmetry symmetry = symmetry_of(shape);
  const ParameterSource from_a(a, shape), from_b(b, shape);
  nlohmann::json record;
  record["weights"] = parameter_count(shape);
  record["in place"] = time_of([&] { compare_in_place(from_a, from_b, Progress::silent()); });
  Recovery found;
  record["recover"] =
      time_of([&] { found = recover(symmetry, from_a, from_b, Progress::silent()); });
  std::vector<TensorResidual> residuals;
  record["estimate"] = time_of(
      [&] { residuals = estimate(symmetry, found.a_from_b, from_a, from_b, Progress::silent()); });
  record["same"] = all_agree(residuals);
  record["GFLOP/s, D x D x D"] = flops_per_second(shape.width, shape.width, shape.width) / 1e9;
  record["GFLOP/s, D x D x 32"] = flops_per_second(shape.width, 32, shape.width) / 1e9;
  fmt::print("{}\n", record.dump(2));
}
