// What a model writes follows its own probabilities.
#include "regauge/lab/sample.h"

#include <gtest/gtest.h>

#include <cmath>

#include "regauge/base/error.h"
#include "regauge/lab/forward.h"
#include "regauge/lab/objective.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

Parameters<float> sharp_parameters(const Architecture& a) {
  auto p = cast<float>(random_parameters(a, 1));
  p["head.weight"] *= 3;
  return p;
}

// The loss of a model on its own writing is the entropy of its predictions there, up to chance.
TEST(Sample, LossIsTheEntropy) {
  const Architecture a = known_architectures().front().architecture;
  const auto p = sharp_parameters(a);
  const auto data = lab::sample_data(a, {&p}, 400, 8, 1, Progress::silent());
  const lab::Score score = lab::evaluate(a, p, *data, 0, Progress::silent());
  double entropy = 0;
  for (std::int64_t i = 0; i < data->size(); ++i) {
    const Matrix<float> y = lab::forward(a, p, data->batch(std::array{i}));
    for (Eigen::Index t = 0; t < y.rows(); ++t) {
      const Eigen::ArrayXd row = y.row(t).transpose().cast<double>().array() - y.row(t).maxCoeff();
      const double norm = std::log(row.exp().sum());
      entropy -= ((row - norm).exp() * (row - norm)).sum();
    }
  }
  entropy /= static_cast<double>(score.targets);
  EXPECT_NEAR(score.loss, entropy, 4 * score.loss_error);
  EXPECT_LT(entropy, 0.9 * std::log(static_cast<double>(a.vocabulary)));
  EXPECT_EQ(score.targets, 400 * 8);
}

// Two writers take turns: each one's loss is lower on what it wrote than the other's is.
TEST(Sample, WritersTakeTurns) {
  const Architecture a = known_architectures().front().architecture;
  const auto one = sharp_parameters(a);
  auto two = one;
  two["head.weight"] *= -1;
  const auto data = lab::sample_data(a, {&one, &two}, 400, 8, 1, Progress::silent());
  const lab::Score by_one = lab::evaluate(a, one, *data, 0, Progress::silent());
  const lab::Score by_two = lab::evaluate(a, two, *data, 0, Progress::silent());
  double own = 0, other = 0;
  for (std::size_t i = 0; i < by_one.by_example.size(); ++i) {
    own += (i % 2 == 0 ? by_one : by_two).by_example[i].loss;
    other += (i % 2 == 0 ? by_two : by_one).by_example[i].loss;
  }
  EXPECT_LT(own, 0.8 * other);
}

TEST(Sample, ComesBackWithTheSeed) {
  const Architecture a = known_architectures().front().architecture;
  const auto p = sharp_parameters(a);
  const auto tokens = [&](std::uint64_t seed) {
    return lab::sample_data(a, {&p}, 3, 5, seed, Progress::silent())
        ->batch(std::array<std::int64_t, 1>{0})
        .tokens;
  };
  EXPECT_EQ(tokens(1), tokens(1));
  EXPECT_NE(tokens(1), tokens(2));
}

TEST(Sample, RefusesAnEncoder) {
  Architecture a = known_architectures().front().architecture;
  a.causal = false;
  const auto p = sharp_parameters(a);
  EXPECT_THROW(lab::sample_data(a, {&p}, 2, 4, 1, Progress::silent()), UsageError);
}

}  // namespace
}  // namespace regauge
