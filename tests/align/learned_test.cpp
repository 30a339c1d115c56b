// Learning an element, judged without a model: the loss is the distance to A.
#include "align/learned/learned.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

#include "action/pull_back.h"
#include "regauge/action/act.h"
#include "regauge/base/error.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

// |theta - A|^2 / 2, whatever the batch: on the line it is lowest where g B = A.
class Distance : public Objective<float> {
 public:
  explicit Distance(const Parameters<double>& target) : target_(target) {}
  double evaluate(const Parameters<float>& parameters, Parameters<float>* gradient) override {
    double sum = 0;
    for (const auto& [name, value] : parameters) {
      const Matrix<double> difference = value.cast<double>() - target_.at(name);
      sum += difference.squaredNorm() / 2;
      if (gradient != nullptr) (*gradient)[name] = difference.cast<float>();
    }
    return sum;
  }
  void advance() override { ++batches; }
  int batches = 0;

 private:
  const Parameters<double>& target_;
};

double distance_between(const Parameters<double>& a, const Parameters<double>& b) {
  double sum = 0;
  for (const auto& [name, value] : a) sum += (value - b.at(name)).squaredNorm();
  return std::sqrt(sum);
}

Architecture small(const std::string& name) {
  Architecture architecture = known_architecture(name);
  architecture.norm_eps = 1e-5;
  return architecture;
}

// A model, and the same moved a little on the group.
struct Pair {
  explicit Pair(const Architecture& architecture, double size = 0.1)
      : symmetry(symmetry_of(architecture)), a(random_parameters(architecture, 1)), b(a) {
    Tangent tangent = random_tangent(symmetry, 2);
    tangent.shifts.clear();
    for (auto& [name, blocks] : tangent.maps) blocks *= size;
    act(symmetry, retract(symmetry, tangent), b);
  }
  double left(const Element& element) const {
    Parameters<double> moved = b;
    act(symmetry, element, moved);
    return distance_between(a, moved);
  }
  Element learned(const Learning& learning, Distance& distance) const {
    Learner learner(symmetry, a, b, {}, learning);
    while (learner.steps() < learning.steps) learner.step(distance);
    return learner.a_from_b();
  }
  Symmetry symmetry;
  Parameters<double> a, b;
};

TEST(Learned, ComesBackToA) {
  for (const char* name :
       {"llama", "llama, one kv head", "llama, no positions", "gpt2, untied, head bias"}) {
    const Pair pair(small(name));
    Learning learning;
    learning.steps = 300;
    Distance distance(pair.a);
    const Element found = pair.learned(learning, distance);
    EXPECT_LT(pair.left(found), 0.05 * pair.left({})) << name;
    EXPECT_NO_THROW(check_member(pair.symmetry, found, 1e-9));
    EXPECT_EQ(distance.batches, 150);
  }
}

// Scales cannot be undone by rotations and phases.
TEST(Learned, TheCompactGroupComesLessFar) {
  const Pair pair(small("llama"), 0.2);
  const auto left = [&](bool compact) {
    Learning learning;
    learning.steps = 300;
    learning.compact = compact;
    Distance distance(pair.a);
    const Element found = pair.learned(learning, distance);
    for (const auto& [name, map] : found.maps) {
      if (!compact || !map.has_blocks()) continue;
      for (std::int64_t i = 0; i < map.count(); ++i) {
        const Matrix<double> gram = map.block(i).transpose() * map.block(i);
        EXPECT_TRUE(gram.isIdentity(1e-9)) << name;
      }
    }
    return pair.left(found);
  };
  EXPECT_LT(left(false), 0.05 * pair.left({}));
  EXPECT_GT(left(true), 0.3 * pair.left({}));
}

// Neurons that have changed places, and signs, are found by the slopes alone.
TEST(Learned, NeuronsFindTheirPlaces) {
  Pair pair(small("llama"), 0);
  act(pair.symmetry, random_element(pair.symmetry, 3, {Category::ffn}), pair.b);
  EXPECT_GT(pair.left({}), 1);
  Learning learning;
  learning.steps = 300;
  learning.rematch = 5;
  learning.similarity = 0;
  learning.premium = 0;
  Distance distance(pair.a);
  EXPECT_LT(pair.left(pair.learned(learning, distance)), 0.05 * pair.left({}));
}

// Adam's steps have a size even where there is nothing to be won; the start is then what is kept.
TEST(Learned, StaysWhereNothingIsToBeWon) {
  const Pair pair(small("llama"), 0);
  const Learning learning{.steps = 20};
  Learner learner(pair.symmetry, pair.a, pair.b, {}, learning);
  Distance distance(pair.a);
  const Element found = learn(learner, distance, learning, {}, Progress::silent());
  EXPECT_TRUE(found.is_identity());
}

TEST(Learned, GoesOnWhereItWasInterrupted) {
  const Pair pair(small("llama"));
  const auto file = std::filesystem::temp_directory_path() / "regauge_learned_test.safetensors";
  const Learning learning{.steps = 30};
  Learner whole(pair.symmetry, pair.a, pair.b, {}, learning);
  Distance distance(pair.a);
  for (int i = 0; i < 17; ++i) whole.step(distance);
  whole.save(file);
  Learner resumed(pair.symmetry, pair.a, pair.b, {}, learning);
  Distance again(pair.a);
  resumed.load(file, again);
  EXPECT_EQ(resumed.steps(), 17);
  EXPECT_EQ(again.batches, distance.batches);
  for (int i = 17; i < 30; ++i) {
    whole.step(distance);
    resumed.step(again);
  }
  EXPECT_EQ(regauge::distance(pair.symmetry, whole.a_from_b(), resumed.a_from_b()), 0);
  Learner other(pair.symmetry, pair.a, pair.b, {}, Learning{.steps = 31});
  EXPECT_THROW(other.load(file, again), UsageError);
  Pair changed = pair;
  changed.b.at("layers.1.ffn.up.weight") *= 1.1;
  Learner of_another(pair.symmetry, pair.a, changed.b, {}, learning);
  EXPECT_THROW(of_another.load(file, again), UsageError);
  // Of a work that has not begun nothing is taken over.
  Learner(pair.symmetry, pair.a, changed.b, {}, Learning{.steps = 31}).save(file);
  Learner fresh(pair.symmetry, pair.a, pair.b, {}, learning);
  fresh.load(file, again);
  EXPECT_EQ(fresh.steps(), 0);
  std::filesystem::remove(file);
}

TEST(Learning, RefusesUnknownSettings) {
  EXPECT_EQ(learning_from_json({{"steps", 7}}).steps, 7);
  EXPECT_THROW(learning_from_json({{"stpes", 7}}), UsageError);
  EXPECT_THROW(learning_from_json({{"steps", 0}}), UsageError);
  EXPECT_THROW(learning_from_json({{"rate", "fast"}}), UsageError);
}

}  // namespace
}  // namespace regauge
