// Gradients against differences of the loss, and scores against the loss.
#include "regauge/lab/objective.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <set>

#include "inputs.h"
#include "regauge/base/error.h"
#include "regauge/lab/forward.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

class RandomData : public lab::Data {
 public:
  RandomData(Architecture architecture, std::int64_t size)
      : architecture_(std::move(architecture)), size_(size) {}
  std::int64_t size() const override { return size_; }
  lab::Batch batch(std::span<const std::int64_t> examples) const override {
    lab::Batch all;
    for (const std::int64_t example : examples) {
      const auto one = testing::random_batch(architecture_, 1, static_cast<std::uint64_t>(example));
      all.sequences += 1;
      all.length = one.length;
      all.tokens.insert(all.tokens.end(), one.tokens.begin(), one.tokens.end());
      all.types.insert(all.types.end(), one.types.begin(), one.types.end());
      all.targets.insert(all.targets.end(), one.targets.begin(), one.targets.end());
      Matrix<float> vectors(all.vectors.rows() + one.vectors.rows(), one.vectors.cols());
      if (all.vectors.rows() > 0) vectors.topRows(all.vectors.rows()) = all.vectors;
      vectors.bottomRows(one.vectors.rows()) = one.vectors;
      all.vectors = vectors;
    }
    return all;
  }

 private:
  Architecture architecture_;
  std::int64_t size_;
};

TEST(Objective, GradientIsTheSlopeOfTheLoss) {
  int tested = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Architecture a = random_architecture(seed);
    if (a.output == Output::hidden || a.kinds[0].ffn.activation == Activation::relu) continue;
    const auto data = std::make_shared<RandomData>(a, 50);
    const auto objective = lab::make_objective<double>(a, data, 5, seed);
    objective->advance();
    auto p = random_parameters(a, seed);
    Parameters<double> gradient;
    const double loss = objective->evaluate(p, &gradient);
    EXPECT_NEAR(loss, objective->evaluate(p, nullptr), 1e-12);
    Random random(seed, "direction");
    Parameters<double> direction;
    double slope = 0;
    for (const auto& [name, value] : p) {
      direction[name] = value;
      for (auto& entry : direction[name].reshaped()) entry = random.normal();
      slope += direction[name].cwiseProduct(gradient.at(name)).sum();
    }
    constexpr double kStep = 1e-5;
    for (auto& [name, value] : p) value += kStep * direction.at(name);
    const double above = objective->evaluate(p, nullptr);
    for (auto& [name, value] : p) value -= 2 * kStep * direction.at(name);
    const double below = objective->evaluate(p, nullptr);
    EXPECT_NEAR((above - below) / (2 * kStep), slope, 1e-5 * (1 + std::abs(slope)))
        << to_json(a).dump();
    ++tested;
  }
  EXPECT_GT(tested, 25);
}

TEST(Objective, BatchesGoOnAndComeBackWithTheSeed) {
  const Architecture a = known_architectures().front().architecture;
  const auto data = std::make_shared<RandomData>(a, 1000);
  const auto p = random_parameters(a, 1);
  const auto one = lab::make_objective<double>(a, data, 4, 1);
  const auto two = lab::make_objective<double>(a, data, 4, 1);
  const double first = one->evaluate(p, nullptr);
  EXPECT_EQ(first, two->evaluate(p, nullptr));
  one->advance();
  EXPECT_NE(first, one->evaluate(p, nullptr));
}

// Nothing to lower at either end; between them the divergence from the mixture of the ends'
// predictions, with its slope.
TEST(Distillation, ComparesWithTheEnds) {
  int tested = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Architecture architecture = random_architecture(seed);
    if (architecture.output == Output::hidden) continue;
    if (architecture.kinds[0].ffn.activation == Activation::relu) continue;
    const auto data = std::make_shared<RandomData>(architecture, 50);
    const auto a = random_parameters(architecture, 1), b = random_parameters(architecture, 2);
    const auto objective = lab::make_distillation<double>(architecture, a, b, data, 5, seed);
    objective->place(0);
    EXPECT_NEAR(objective->evaluate(a, nullptr), 0, 1e-10);
    objective->place(1);
    EXPECT_NEAR(objective->evaluate(b, nullptr), 0, 1e-10);
    objective->advance();
    EXPECT_NEAR(objective->evaluate(b, nullptr), 0, 1e-10);
    objective->place(0.3);
    Parameters<double> point, gradient;
    for (const auto& [name, value] : a) point[name] = 0.7 * value + 0.3 * b.at(name);
    EXPECT_GT(objective->evaluate(point, &gradient), 1e-4);
    constexpr double kStep = 1e-5;
    double slope = 0;
    for (const auto& [name, value] : a) {
      slope += gradient.at(name).cwiseProduct(b.at(name) - value).sum();
    }
    const auto moved = [&](double step) {
      Parameters<double> p = point;
      for (auto& [name, value] : p) value += step * (b.at(name) - a.at(name));
      return objective->evaluate(p, nullptr);
    };
    EXPECT_NEAR((moved(kStep) - moved(-kStep)) / (2 * kStep), slope, 1e-5 * (1 + std::abs(slope)));
    ++tested;
  }
  EXPECT_GT(tested, 10);
}

TEST(Evaluate, IsTheMeanOfTheLossesByHand) {
  const Architecture a = known_architectures().front().architecture;
  const RandomData data(a, 100);
  const auto p = random_parameters(a, 1);
  const lab::Score score = lab::evaluate(a, p, data, 0, Progress::silent());
  double sum = 0;
  int correct = 0;
  std::vector<double> means;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const lab::Batch batch = data.batch(std::array{i});
    const Matrix<double> y = lab::forward(a, p, batch);
    double mean = 0;
    for (Eigen::Index t = 0; t < y.rows(); ++t) {
      const auto target = batch.targets[static_cast<std::size_t>(t)];
      Eigen::Index best = 0;
      const double largest = y.row(t).maxCoeff(&best);
      mean += largest + std::log((y.row(t).array() - largest).exp().sum()) - y(t, target);
      correct += best == target ? 1 : 0;
    }
    sum += mean;
    means.push_back(mean / static_cast<double>(y.rows()));
  }
  const double loss = sum / static_cast<double>(score.targets);
  EXPECT_NEAR(score.loss, loss, 1e-12);
  EXPECT_NEAR(score.accuracy, correct / static_cast<double>(score.targets), 1e-12);
  double spread = 0;
  for (const double mean : means) spread += std::pow(mean - loss, 2);
  EXPECT_NEAR(score.loss_error, std::sqrt(spread / (99 * 100)), 1e-12);
  EXPECT_EQ(score.examples, 100);
}

// Every third example of a hundred, seven of the thirty-four at equal distances.
TEST(Evaluate, VisitsExamplesAtEqualDistances) {
  class Watched : public RandomData {
   public:
    using RandomData::RandomData;
    std::int64_t stride() const override { return 3; }
    lab::Batch batch(std::span<const std::int64_t> examples) const override {
      seen.insert(examples.begin(), examples.end());
      return RandomData::batch(examples);
    }
    mutable std::set<std::int64_t> seen;
  };
  const Architecture a = known_architectures().front().architecture;
  const Watched data(a, 100);
  const auto p = random_parameters(a, 1);
  EXPECT_EQ(lab::evaluate(a, p, data, 7, Progress::silent()).examples, 7);
  EXPECT_EQ(data.seen, (std::set<std::int64_t>{0, 12, 27, 42, 57, 72, 87}));
}

TEST(Evaluate, RefusesDataWithoutTargets) {
  class Silent : public RandomData {
   public:
    using RandomData::RandomData;
    lab::Batch batch(std::span<const std::int64_t> examples) const override {
      lab::Batch batch = RandomData::batch(examples);
      for (auto& target : batch.targets) target = lab::kIgnore;
      return batch;
    }
  };
  const Architecture a = known_architectures().front().architecture;
  EXPECT_THROW(lab::evaluate(a, random_parameters(a, 1), Silent(a, 5), 0, Progress::silent()),
               UsageError);
}

}  // namespace
}  // namespace regauge
