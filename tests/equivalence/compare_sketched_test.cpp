// What is seen through thin products is what a full comparison finds.
#include <gtest/gtest.h>

#include <algorithm>

#include "action/executor.h"
#include "arch/fixture.h"
#include "regauge/action/act.h"
#include "regauge/equivalence/compare.h"
#include "symmetry/architectures.h"
#include "temporary.h"

namespace regauge {
namespace {

using testing::fixture;
using testing::Temporary;

Matrix<double> random_matrix(std::int64_t rows, std::int64_t cols) {
  Random random(5, "thin");
  Matrix<double> result(rows, cols);
  for (auto& entry : result.reshaped()) entry = random.normal();
  return result;
}

class Layouts : public ::testing::TestWithParam<std::string> {};

TEST_P(Layouts, StoredMatricesAreMultipliedInTheirOwnOrder) {
  const Model model = Model::open(fixture(GetParam()));
  Architecture untied = model.architecture;
  untied.tied = false;
  for (const auto& shape : {model.architecture, untied}) {
    const ParameterSource source(model, shape);
    for (const auto& spec : parameter_specs(shape)) {
      const StoredMatrix<double> stored(source, spec);
      const Matrix<double> dense = source.read<double>(spec.name);
      const Matrix<double> x = random_matrix(3, spec.rows), y = random_matrix(spec.cols, 3);
      EXPECT_LT((stored.left(x) - x * dense).norm(), 1e-12 * (1 + dense.norm())) << spec.name;
      EXPECT_LT((stored.right(y) - dense * y).norm(), 1e-12 * (1 + dense.norm())) << spec.name;
    }
  }
}

TEST_P(Layouts, InPlaceIsAsByTheIdentity) {
  const Model model = Model::open(fixture(GetParam()));
  Parameters<double> changed = read_parameters(model);
  for (auto& [name, value] : changed) {
    Random random(1, name);
    for (auto& entry : value.reshaped()) entry *= 1 + 1e-3 * random.normal();
  }
  const Temporary folder("in-place-" + GetParam());
  write_parameters<double>(folder / "b", "regauge", Format::safetensors, model.architecture,
                           changed, DType::f32);
  const Model other = Model::open(folder / "b");
  const ParameterSource a(model, model.architecture), b(other, model.architecture);
  const auto expected = compare(symmetry_of(model.architecture), {}, a, b, Progress::silent());
  const auto found = compare_in_place(a, b, Progress::silent());
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].tensor, expected[i].tensor);
    EXPECT_NEAR(found[i].size, expected[i].size, 1e-6 * expected[i].size) << found[i].tensor;
    EXPECT_NEAR(found[i].residual, expected[i].residual, 1e-6 * expected[i].residual)
        << found[i].tensor;
    const double spread = found[i].single_row ? 0.6 : 1e-6;  // there compare() draws few numbers
    EXPECT_NEAR(found[i].rounding, expected[i].rounding, spread * expected[i].rounding)
        << found[i].tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Layouts, ::testing::ValuesIn(testing::fixture_names()),
                         testing::test_name);

TEST(MovedMatrix, IsTheMatrixThatTheElementMakes) {
  for (const auto& known : known_architectures()) {
    const Symmetry symmetry = symmetry_of(known.architecture);
    const Element element = random_element(symmetry, 3);
    const Parameters<double> before = random_parameters(known.architecture, 4);
    const Plan plan = make_plan(symmetry, element);
    Executor dense(symmetry, element), thin(symmetry, element);
    for (const auto& layer : plan.layers) {
      const auto read = [&](const TensorPlan& tensor) { return before.at(tensor.spec.name); };
      dense.begin(layer, read);
      thin.begin(layer, read);
      for (const auto& tensor : layer.matrices) {
        const Matrix<double>& original = before.at(tensor.spec.name);
        Matrix<double> value = original;
        MovedMatrix<double> moved(
            original.rows(), original.cols(),
            [&](const Matrix<double>& x) { return Matrix<double>(x * original); },
            [&](const Matrix<double>& y) { return Matrix<double>(original * y); });
        dense.transform(tensor, value);
        thin.transform(tensor, moved);
        const Matrix<double> x = random_matrix(3, value.rows()), y = random_matrix(value.cols(), 3);
        const double scale = 1e-12 * (1 + value.norm());
        EXPECT_LT((moved.left(x) - x * value).norm(), 100 * scale) << tensor.spec.name;
        EXPECT_LT((moved.right(y) - value * y).norm(), 100 * scale) << tensor.spec.name;
      }
      const auto expected = dense.finish(layer), found = thin.finish(layer);
      for (const auto& [name, row] : expected) {
        EXPECT_LT((found.at(name) - row).norm(), 1e-10 * (1 + row.norm())) << name;
      }
    }
  }
}

// A model, and what a random element and a change of its tensors make of it, in two files.
class Pair {
 public:
  Pair(const Architecture& shape, const std::string& name, DType dtype)
      : folder_("estimate-" + name),
        symmetry_(symmetry_of(shape)),
        original_(random_parameters(shape, 1)),
        a_from_b_(random_element(symmetry_, 2)),
        dtype_(dtype),
        model_a_(write(original_)) {}

  template <class Judge>
  std::vector<TensorResidual> judged(Judge judge, Parameters<double> changed) {
    act(symmetry_, inverse(symmetry_, a_from_b_), changed);
    const Model model_b = write(changed);
    const ParameterSource a(model_a_, symmetry_.architecture), b(model_b, symmetry_.architecture);
    return judge(symmetry_, a_from_b_, a, b, Progress::silent());
  }
  const Parameters<double>& original() const { return original_; }

 private:
  Model write(const Parameters<double>& parameters) {
    const auto path = folder_ / std::to_string(written_++);
    write_parameters<double>(path, "regauge", Format::safetensors, symmetry_.architecture,
                             parameters, dtype_);
    return Model::open(path);
  }

  Temporary folder_;
  int written_ = 0;
  Symmetry symmetry_;
  Parameters<double> original_;
  Element a_from_b_;
  DType dtype_;
  Model model_a_;
};

// Through directions of some seed.
std::vector<TensorResidual> seen(const Symmetry& symmetry, const Element& a_from_b,
                                 const ParameterSource& a, const ParameterSource& b,
                                 Progress& progress) {
  return compare_sketched(symmetry, a_from_b, a, b, 12345, progress);
}

// Tiny matrices have few dimensions in which residuals average out: a factor of 3 there.
TEST(CompareSketched, IsNearTheFullComparison) {
  int number = 0;
  for (const auto& known : known_architectures()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Pair pair(known.architecture, std::to_string(number++), dtype);
      auto changed = pair.original();
      for (auto& [name, value] : changed) {
        Random random(7, name);
        for (auto& entry : value.reshaped()) entry *= 1 + 1e-2 * random.normal();
      }
      const auto expected = pair.judged(compare, changed);
      const auto found = pair.judged(seen, changed);
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].tensor, expected[i].tensor);
        const auto ratio = [](double a, double b) { return a == b ? 1 : a / b; };
        for (const double off : {ratio(found[i].size, expected[i].size),
                                 ratio(found[i].residual, expected[i].residual),
                                 ratio(found[i].rounding, expected[i].rounding)}) {
          EXPECT_GT(off, 1.0 / 3) << known.name << ": " << found[i].tensor;
          EXPECT_LT(off, 3) << known.name << ": " << found[i].tensor;
        }
      }
    }
  }
}

// One weight changed by 1 % of its matrix's root mean square, wherever it stands.
TEST(CompareSketched, FindsOneWeight) {
  Architecture shape = known_architectures().front().architecture;
  shape.width = 48;
  shape.kinds[0].ffn.width = 100;
  shape.vocabulary = 60;
  Pair pair(shape, "one-weight", DType::f32);
  for (const auto& r : pair.judged(seen, pair.original())) {
    EXPECT_LE(r.excess, 1) << r.tensor;
  }
  for (const auto& spec : parameter_specs(shape)) {
    if (spec.rows == 1) continue;
    Random random(11, spec.name);
    for (int trial = 0; trial < 4; ++trial) {
      auto changed = pair.original();
      Matrix<double>& tensor = changed.at(spec.name);
      const double rms = tensor.norm() / std::sqrt(static_cast<double>(tensor.size()));
      tensor(random.below(spec.rows), random.below(spec.cols)) += 0.01 * rms;
      const auto found = pair.judged(seen, changed);
      const auto worst = std::max_element(found.begin(), found.end(),
                                          [](auto& a, auto& b) { return a.excess < b.excess; });
      EXPECT_EQ(worst->tensor, spec.name);
      EXPECT_GT(worst->excess, 10) << spec.name;
    }
  }
}

}  // namespace
}  // namespace regauge
