// Processor seconds of each phase of a diff, and of bare BLAS for products of the same size:
// diff_phases A B prints one JSON record.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "base/blas.h"
#include "equivalence/recover/recover.h"
#include "numerics/dense.h"
#include "regauge/arch/joint_architecture.h"
#include "regauge/equivalence/compare.h"

namespace {

double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <class Work>
double time_of(Work work) {
  const double begin = seconds();
  work();
  return seconds() - begin;
}

struct Product {
  const char* phase;
  std::int64_t rows, cols, inner;  // [rows, inner] times [inner, cols], floats
  std::int64_t count;
};

// What a recovery and its verdict have to multiply at least: some directions of the stream through
// every matrix of both models, and through the map of the stream once for each layer; a few vectors
// per coordinate for that map's correlation; a dozen products to make it orthogonal; and 16 columns
// for the residuals.
std::vector<Product> products_of(const regauge::Architecture& a) {
  const std::int64_t d = a.width, layers = a.layers;
  const std::int64_t seen = std::max<std::int64_t>(
      32, 2 * std::max(a.kinds[0].attention.qk_width, a.kinds[0].attention.v_width));
  const std::int64_t readers = a.kinds[0].attention.heads * a.kinds[0].attention.qk_width +
                               a.kinds[0].attention.kv_heads *
                                   (a.kinds[0].attention.qk_width + a.kinds[0].attention.v_width);
  const std::int64_t ffn = (a.kinds[0].ffn.gated ? 2 : 1) * a.kinds[0].ffn.width;
  const std::int64_t anchors = std::min(a.vocabulary, 2 * d);
  return {
      {"layers", seen, readers, d, 2 * layers},
      {"layers", seen, a.kinds[0].attention.heads * a.kinds[0].attention.v_width, d, 2 * layers},
      {"layers", 32, ffn + a.kinds[0].ffn.width, d, 2 * layers},
      {"layers", seen + 32, d, d, layers},
      {"stream", d, d, anchors, a.tied ? 1 : 2},
      {"stream", d, d, d, 12},
      {"residuals", 16, readers + a.kinds[0].attention.heads * a.kinds[0].attention.v_width, d,
       2 * layers},
      {"residuals", 16, ffn + a.kinds[0].ffn.width, d, 2 * layers},
      {"residuals", 16, a.vocabulary, d, a.tied ? 2 : 4},
      {"residuals", 16, d, d, layers}};
}

double bare_seconds(const Product& p) {
  const auto size = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
  const std::vector<float> a(size(p.rows, p.inner), 0.5F), b(size(p.inner, p.cols), 0.5F);
  std::vector<float> c(size(p.rows, p.cols));
  const auto product = [&] {
    regauge::gemm<float>(false, false, p.rows, p.cols, p.inner, 1, a.data(), p.inner, b.data(),
                         p.cols, 0, c.data(), p.cols);
  };
  product();
  const double once = time_of([&] {
                        for (int i = 0; i < 3; ++i) product();
                      }) /
                      3;
  return once * static_cast<double>(p.count);
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
  record["recover"] = time_of([&] {
    found = recover(symmetry, from_a, from_b, rounding_of(DType::bf16), Progress::silent());
  });
  std::vector<TensorResidual> residuals;
  record["compare"] = time_of([&] {
    residuals = compare_sketched(symmetry, found.a_from_b, from_a, from_b, 0, Progress::silent());
  });
  record["same"] = all_agree(residuals);
  std::map<std::string, double> bare;
  double all = 0;
  for (const auto& product : products_of(shape)) {
    const double used = bare_seconds(product);
    bare[product.phase] += used;
    all += used;
  }
  record["bare products"] = bare;
  record["times bare products"] =
      (record["recover"].get<double>() + record["compare"].get<double>()) / all;
  fmt::print("{}\n", record.dump(2));
}
