// The numbers of docs/conventions.md.
#include <gtest/gtest.h>

#include <numeric>

#include "arch/forward.h"
#include "regauge/action/act.h"
#include "regauge/arch/layout.h"
#include "regauge/symmetry/element.h"

namespace regauge {
namespace {

Matrix<double> row(std::initializer_list<double> values) {
  Matrix<double> result(1, static_cast<Eigen::Index>(values.size()));
  std::copy(values.begin(), values.end(), result.data());
  return result;
}

Matrix<double> column(std::initializer_list<double> values) { return row(values).transpose(); }

Matrix<double> square(double a, double b, double c, double d) {
  Matrix<double> result(2, 2);
  result << a, b, c, d;
  return result;
}

BlockMap<double> permutation(std::vector<std::int64_t> places) {
  const auto count = static_cast<std::int64_t>(places.size());
  return {count, 1, std::move(places), {}};
}

BlockMap<double> factors(std::initializer_list<double> values) {
  return {static_cast<std::int64_t>(values.size()), 1, {}, column(values)};
}

Matrix<double> applied(const BlockMap<double>& map, Matrix<double> vector) {
  map.apply(vector, 1);
  return vector;
}

void expect_equal(const Matrix<double>& found, const Matrix<double>& expected) {
  ASSERT_EQ(found.rows(), expected.rows());
  ASSERT_EQ(found.cols(), expected.cols());
  EXPECT_LE((found - expected).cwiseAbs().maxCoeff(), 1e-12) << found << "\nexpected\n" << expected;
}

// D = 2, one layer, one head of width 2, three neurons, no positions; a key bias.
Architecture tiny() {
  Architecture a;
  a.width = a.kinds[0].attention.qk_width = a.kinds[0].attention.v_width = 2;
  a.layers = a.kinds[0].attention.heads = a.kinds[0].attention.kv_heads = 1;
  a.kinds[0].ffn.width = 3;
  a.vocabulary = 5;
  a.max_positions = 4;
  a.kinds[0].attention.scale = 1;
  a.kinds[0].attention.biases.k = true;
  return a;
}

Parameters<double> acted(const Architecture& a, const Element& element,
                         Parameters<double> parameters) {
  act(symmetry_of(a), element, parameters);
  return parameters;
}

// A parameter read from a holder whose n-th number is n.
Matrix<double> numbered(const std::string& fixture, const std::string& parameter) {
  std::filesystem::path path = std::filesystem::path(REGAUGE_FIXTURES) / fixture;
  if (fixture.ends_with("-gguf")) path /= "model.gguf";
  const Model model = Model::open(path);
  return model.layout.extract<double>(parameter, [](const auto&, std::span<double> values) {
    std::iota(values.begin(), values.end(), 0.0);
  });
}

TEST(Conventions, MatricesAreInByOut) {
  const std::string up = "layers.0.ffn.up.weight";
  const Matrix<double> llama = numbered("llama", up);  // stored [27, 20]
  EXPECT_EQ(llama.rows(), 20);
  EXPECT_EQ(llama.cols(), 27);
  EXPECT_EQ(llama(3, 5), 5 * 20 + 3);
  EXPECT_EQ(numbered("gpt2", up)(3, 5), 3 * 27 + 5);  // stored [20, 27]
}

TEST(Conventions, GainsAreWhatMultiplies) {
  EXPECT_EQ(numbered("llama", "head.norm.gain")(0, 7), 7);
  EXPECT_EQ(numbered("gemma", "head.norm.gain")(0, 7), 8);
}

TEST(Conventions, RotaryPairsAreAdjacent) {
  const std::string q = "layers.0.attn.q.weight";
  expect_equal(numbered("llama", q).block(0, 0, 1, 6) / 20, row({0, 3, 1, 4, 2, 5}));
  expect_equal(numbered("llama-gguf", q).block(0, 0, 1, 6) / 20, row({0, 1, 2, 3, 4, 5}));
}

TEST(Conventions, APairIsAComplexNumber) {
  const Matrix<double> z = square(0, 2, -2, 0);  // 2i
  const RotaryCommutant group(2, {0.3});
  EXPECT_EQ(group.violation(z), 0);
  EXPECT_EQ(group.violation(square(0, 2, 2, 0)), 2);
  const BlockMap<double> map(1, 2, {}, z);
  expect_equal(applied(map, row({1, 0})), row({0, 2}));
  expect_equal(applied(map.dual(), row({1, 0})), row({0, 0.5}));
}

TEST(Conventions, QueryHeadsFollowEachOther) {
  expect_equal(factors({10, 20}).lifted(permutation({0, 1, 2, 3})).dense().diagonal().transpose(),
               row({10, 10, 20, 20}));

  // Head 1 of 4 reads kv head 0 of 2: with the other heads silent, the values of kv head 1 are not
  // seen.
  Architecture a = tiny();
  a.kinds[0].attention.heads = 4;
  a.kinds[0].attention.kv_heads = 2;
  auto parameters = random_parameters(a, 1);
  auto& output = parameters.at("layers.0.attn.o.weight");
  output.topRows(2).setZero();
  output.bottomRows(4).setZero();
  const Matrix<double> input = column({0, 1, 2});
  const Matrix<double> before = testing::forward(a, parameters, input);
  auto other = parameters;
  other.at("layers.0.attn.v.weight").rightCols(2) *= 2;
  expect_equal(testing::forward(a, other, input), before);
  other.at("layers.0.attn.v.weight").leftCols(2) *= 2;
  EXPECT_GT((testing::forward(a, other, input) - before).cwiseAbs().maxCoeff(), 1e-3);
}

TEST(Conventions, KvHeadsMoveWithTheirQueryHeads) {
  Architecture a = tiny();
  a.kinds[0].attention.heads = 4;
  a.kinds[0].attention.kv_heads = 2;
  const Symmetry symmetry = symmetry_of(a);
  Element element;
  element.maps["layers.0.attn.heads"] = permutation({2, 3, 1, 0});
  const auto kv = map_of(symmetry, element, *symmetry.find_space("layers.0.attn.vo"));
  EXPECT_EQ(kv.permutation(), (std::vector<std::int64_t>{1, 0}));
}

TEST(Conventions, BlockIGoesToPlacePOfI) {
  const BlockMap<double> map(3, 1, {1, 2, 0}, column({10, 20, 30}));
  expect_equal(applied(map, row({1, 2, 3})), row({90, 10, 40}));
  Matrix<double> down = column({1, 2, 3});
  map.apply(down, 0);
  expect_equal(down, column({90, 10, 40}));
}

TEST(Conventions, TheDualIsTheInverseTranspose) {
  const BlockMap<double> map(1, 2, {}, square(1, 2, 0, 1));
  const Matrix<double> x = row({1, 2}), y = row({3, 4});
  expect_equal(applied(map, x), row({1, 4}));
  expect_equal(applied(map.dual(), y), row({-5, 4}));
  EXPECT_EQ((x * y.transpose())(0, 0), 11);
  EXPECT_EQ((applied(map, x) * applied(map.dual(), y).transpose())(0, 0), 11);
}

TEST(Conventions, TheRightFactorActsFirst) {
  const BlockMap<double> h = permutation({1, 2, 0}), g = permutation({1, 0, 2});
  expect_equal(applied(g * h, row({1, 2, 3})), row({1, 3, 2}));
  expect_equal(applied(h * g, row({1, 2, 3})), row({3, 2, 1}));

  const Architecture a = tiny();
  const Symmetry symmetry = symmetry_of(a);
  const std::string neurons = "layers.0.ffn.neurons", up = "layers.0.ffn.up.weight";
  const Element eh{.maps = {{neurons, h}}, .shifts = {}}, eg{.maps = {{neurons, g}}, .shifts = {}};
  auto parameters = random_parameters(a, 1);
  parameters.at(up).row(0) = row({1, 2, 3});
  expect_equal(acted(a, eg, acted(a, eh, parameters)).at(up).topRows(1), row({1, 3, 2}));
  expect_equal(acted(a, compose(symmetry, eg, eh), parameters).at(up).topRows(1), row({1, 3, 2}));
}

TEST(Conventions, WritersTurnAndReadersTurnThroughTheGain) {
  const Architecture a = tiny();
  const std::string norm = "layers.0.ffn.norm", up = "layers.0.ffn.up.weight",
                    down = "layers.0.ffn.down.weight";
  auto parameters = random_parameters(a, 1);
  parameters.at(norm + ".gain") = row({2, 4});
  parameters.at(up).col(0) = column({1, 1});
  parameters.at(down).row(0) = row({1, 0});
  Element turn;
  turn.maps["residual"] = BlockMap<double>(1, 2, {}, square(0, 1, -1, 0));
  const auto turned = acted(a, turn, parameters);
  expect_equal(turned.at(down).topRows(1), row({0, 1}));
  expect_equal(turned.at(up).leftCols(1), column({-2, 0.5}));
  expect_equal(turned.at(norm + ".gain"), row({2, 4}));

  turn.maps[norm] = factors({1.0 / 2, 1.0 / 4});  // and the gain becomes 1
  const auto folded = acted(a, turn, parameters);
  expect_equal(folded.at(up).leftCols(1), column({-4, 2}));
  expect_equal(folded.at(norm + ".gain"), row({1, 1}));
}

TEST(Conventions, BasisFirstAndThenShifts) {
  const Architecture a = tiny();
  const Symmetry symmetry = symmetry_of(a);
  const std::string qk = "layers.0.attn.qk", constant = "layers.0.attn.k.constant",
                    bias = "layers.0.attn.k.bias";
  const Element basis_and_shift{.maps = {{qk, BlockMap<double>(1, 2, {}, square(2, 0, 0, 4))}},
                                .shifts = {{constant, row({10, 20})}}};
  auto parameters = random_parameters(a, 1);
  parameters.at(bias) = row({1, 2});
  expect_equal(acted(a, basis_and_shift, parameters).at(bias), row({10.5, 20.5}));

  // I' + S' I
  const Element first{.maps = {}, .shifts = {{constant, row({1, 2})}}};
  const Element both = compose(symmetry, basis_and_shift, first);
  expect_equal(both.shifts.at(constant), row({10.5, 20.5}));
  parameters.at(bias) = row({0, 0});
  expect_equal(acted(a, both, parameters).at(bias), row({10.5, 20.5}));
  expect_equal(inverse(symmetry, basis_and_shift).shifts.at(constant), row({-20, -80}));
}

TEST(Conventions, EveryFactorHasItsOwnStream) {
  EXPECT_EQ(Random(1, "element/residual").bits(), 0xab1a0a9676132b76ULL);
  const Symmetry symmetry = symmetry_of(tiny());
  const Element all = random_element(symmetry, 1);
  const Element some = random_element(symmetry, 1, {Category::ffn});
  EXPECT_EQ(some.maps.size(), 1U);
  EXPECT_EQ(distance(some.maps.at("layers.0.ffn.neurons"), all.maps.at("layers.0.ffn.neurons")), 0);
}

}  // namespace
}  // namespace regauge
