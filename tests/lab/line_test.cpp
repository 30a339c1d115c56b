// The line between two models: its ends, its excess, and the error of the barrier.
#include "regauge/lab/line.h"

#include <gtest/gtest.h>

#include <cmath>

#include "inputs.h"
#include "regauge/action/act.h"
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
