// The line between two models: its ends, its excess, and the error of the barrier.
#include "regauge/lab/line.h"

#include <gtest/gtest.h>

#include <cmath>

#include "inputs.h"
#include "regauge/action/act.h"
#include "regauge/action/fold.h"
#include "regauge/base/error.h"
#include "regauge/lab/sample.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

struct Pair {
  Architecture architecture = known_architectures().front().architecture;
  Parameters<double> a = random_parameters(architecture, 1);
  Parameters<double> b = random_parameters(architecture, 2);
  std::unique_ptr<lab::Data> data = sampled(400, 1);

  std::unique_ptr<lab::Data> sampled(std::int64_t sequences, std::uint64_t seed) const {
    const auto writer = cast<float>(a);
    return lab::sample_data(architecture, {&writer}, sequences, 6, seed, Progress::silent());
  }
  lab::Line line(const Parameters<double>& end, const lab::Data& on, std::int64_t points) const {
    return lab::measure_line(architecture, a, end, on, points, 0, Progress::silent());
  }
};

TEST(Line, ExcessIsTheDefinition) {
  const Pair pair;
  const lab::Line line = pair.line(pair.b, *pair.data, 5);
  ASSERT_EQ(line.points.size(), 5u);
  const auto loss = [&](const Parameters<double>& p) {
    return lab::evaluate(pair.architecture, p, *pair.data, 0, Progress::silent()).loss;
  };
  Parameters<double> quarter;
  for (const auto& [name, value] : pair.a) quarter[name] = 0.75 * value + 0.25 * pair.b.at(name);
  EXPECT_NEAR(line.points[1].score.loss, loss(quarter), 1e-12);
  EXPECT_NEAR(line.excess(1), loss(quarter) - 0.75 * loss(pair.a) - 0.25 * loss(pair.b), 1e-12);
  double largest = 0;
  for (std::size_t i = 0; i < 5; ++i) largest = std::max(largest, line.excess(i));
  EXPECT_EQ(line.barrier, largest);
  EXPECT_EQ(line.excess(0), 0);
  EXPECT_EQ(line.excess_error(4), 0);
}

TEST(Line, NoBarrierToItselfAndOneToACopyInOtherCoordinates) {
  const Pair pair;
  const lab::Line self = pair.line(pair.a, *pair.data, 3);
  EXPECT_NEAR(self.barrier, 0, 1e-12);
  const Symmetry symmetry = symmetry_of(pair.architecture);
  Parameters<double> moved = pair.a;
  act(symmetry, random_element(symmetry, 1, {Category::residual, Category::norms}), moved);
  const lab::Line line = pair.line(moved, *pair.data, 3);
  EXPECT_NEAR(line.points[2].score.loss, line.points[0].score.loss, 1e-9);
  EXPECT_GT(line.barrier, 5 * line.barrier_error);
}

TEST(Ensemble, IsTheMeanOfWhatTwoModelsPredict) {
  const Pair pair;
  const auto score = [&](const Parameters<double>& p) {
    return lab::evaluate(pair.architecture, p, *pair.data, 0, Progress::silent());
  };
  const auto both = [&](const Parameters<double>& p, const Parameters<double>& q) {
    return lab::evaluate_ensemble(pair.architecture, p, q, *pair.data, 0, Progress::silent());
  };
  const lab::Score a = score(pair.a), b = score(pair.b);
  EXPECT_NEAR(both(pair.a, pair.a).loss, a.loss, 1e-12);
  EXPECT_EQ(both(pair.a, pair.a).accuracy, a.accuracy);
  const double mean = both(pair.a, pair.b).loss;
  EXPECT_EQ(mean, both(pair.b, pair.a).loss);
  EXPECT_LT(mean, (a.loss + b.loss) / 2);  // the logarithm is concave
  EXPECT_GT(mean, (a.loss + b.loss) / 2 - std::log(2));
}

// The largest difference in loss between the lines (1 - t) g A + t h B and (1 - t) A + t g^-1 h B,
// of folded models if asked for (theory.md section 6).
double both_ends_gap(const std::string& name, const std::set<Category>& moved, bool folded) {
  const Architecture& architecture = known_architecture(name);
  const Symmetry symmetry = symmetry_of(architecture);
  Parameters<double> a = random_parameters(architecture, 1), b = random_parameters(architecture, 2);
  if (folded) {
    for (Parameters<double>* model : {&a, &b}) {
      act(symmetry, fold_element(symmetry, reader_of(*model), {}, Progress::silent()), *model);
    }
  }
  const Element g = random_element(symmetry, 3, moved), h = random_element(symmetry, 4, moved);
  Parameters<double> g_a = a, h_b = b, relative = b;
  act(symmetry, g, g_a);
  act(symmetry, h, h_b);
  act(symmetry, compose(symmetry, inverse(symmetry, g), h), relative);
  const auto writer = cast<float>(a);
  const auto data = lab::sample_data(architecture, {&writer}, 40,
                                     architecture.max_positions > 0 ? 4 : 6, 1, Progress::silent());
  const auto line = [&](const Parameters<double>& from, const Parameters<double>& to) {
    return lab::measure_line(architecture, from, to, *data, 5, 0, Progress::silent());
  };
  const lab::Line both = line(g_a, h_b), one = line(a, relative);
  double largest = 0;
  for (std::size_t i = 0; i < both.points.size(); ++i) {
    largest = std::max(largest, std::abs(both.points[i].score.loss - one.points[i].score.loss));
  }
  return largest;
}

const std::set<Category> kInsideLayers = {Category::heads, Category::qk, Category::vo,
                                          Category::ffn, Category::norms};

TEST(BothEnds, AreNoMoreThanOneWhereTheActionIsAffine) {
  for (const char* name : {"llama", "llama, one kv head", "gpt2, untied, head bias"}) {
    EXPECT_LT(both_ends_gap(name, kInsideLayers, false), 1e-9) << name;
    EXPECT_LT(both_ends_gap(
                  name, {Category::heads, Category::qk, Category::ffn, Category::residual}, true),
              1e-9)
        << name;
  }
}

TEST(BothEnds, AreMoreThanOneWhereItIsNot) {
  // A rotation of the stream reaches its readers through the gains.
  EXPECT_GT(both_ends_gap("llama", {Category::residual}, false), 1e-4);
  // Findings 4: the bias of a layer norm moves, and its readers have none.
  EXPECT_GT(both_ends_gap("layer norm, gelu, rotary", {Category::shifts}, false), 1e-4);
  EXPECT_LT(both_ends_gap("llama, learned positions", {Category::shifts}, false), 1e-9);
}

// The barrier on many fresh samples of the same size scatters as its error says; the error of one
// loss alone, which does not compare examples with themselves, is much larger.
TEST(Line, ErrorIsTheScatterOverSamples) {
  Pair pair;
  for (const auto& [name, value] : pair.a) {
    pair.b[name] = value + 0.05 * (pair.b[name] - value);
  }
  constexpr int kSamples = 60;
  double sum = 0, squares = 0, error = 0, unpaired = 0;
  for (int i = 0; i < kSamples; ++i) {
    const auto data = pair.sampled(40, static_cast<std::uint64_t>(100 + i));
    const lab::Line line = pair.line(pair.b, *data, 3);
    sum += line.excess(1);
    squares += std::pow(line.excess(1), 2);
    error += line.excess_error(1) / kSamples;
    unpaired += line.points[1].score.loss_error / kSamples;
  }
  const double mean = sum / kSamples;
  const double scatter = std::sqrt((squares / kSamples - mean * mean) * kSamples / (kSamples - 1));
  EXPECT_NEAR(error / scatter, 1, 0.35);  // the scatter itself is known to a tenth
  EXPECT_GT(unpaired, 3 * error);
}

TEST(Line, NeedsTwoPoints) {
  const Pair pair;
  EXPECT_THROW(pair.line(pair.b, *pair.data, 1), UsageError);
}

}  // namespace
}  // namespace regauge
