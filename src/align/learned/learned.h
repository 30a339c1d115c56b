#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <memory>

#include "regauge/action/objective.h"
#include "regauge/arch/parameters.h"
#include "regauge/base/progress.h"
#include "regauge/symmetry/scope.h"

namespace regauge {

// How an element is learned.
struct Learning {
  std::int64_t steps = 1000;
  double rate = 2e-2;         // of Adam, at the start; it falls to 0 along a half cosine
  bool compact = false;       // rotations, phases, signs and permutations alone
  std::int64_t rematch = 0;   // steps between two assignments of neurons; 0: they stay
  double neuron_rate = 1e-2;  // of their latents
  double similarity = 0.1;    // the latents' start: cosines of weights times this
  double premium = 0.05;      // and this more for the start's own assignment
  std::uint64_t seed = 1;
};

nlohmann::json to_json(const Learning& learning);
// Absent keys at their defaults; throws UsageError for unknown ones and for values out of range.
Learning learning_from_json(const nlohmann::json& json);

// Lowers a loss on the line from A to g B by steps of g on the group, A and B in comparable form:
// the gradient at (1-t) A + t g B, pulled back to the algebra, moves g by Adam and an exponential.
// g stays in the group, so that neither end's function ever changes. t is drawn from all of [0, 1],
// every second one from the worst tenth; both see the same batch.
//
// Neurons stay, or, with `rematch`, follow a latent similarity of every pair, which takes the
// gradient that a mixture of permutations would have: the assignment of largest latent sum is what
// acts. Heads, shifts, the stream's length and what is out of scope stay as they start.
class Learner {
 public:
  Learner(const Symmetry& symmetry, const Parameters<double>& a, const Parameters<double>& b,
          const Element& start, const Learning& learning, const Scope& scope = {});
  ~Learner();
  Learner(Learner&&) noexcept;

  std::int64_t steps() const;
  // Returns the loss where the step was taken.
  double step(Objective<float>& objective);
  const Element& a_from_b() const;
  // That, or the start if the line from there is no worse: the largest loss at five points of it,
  // on the objective's current batch.
  Element better(Objective<float>& objective) const;
  // The settings, and the mean loss of late in each tenth of the line; null where none was seen.
  nlohmann::json report() const;

  // All that the next step depends on, but for the objective's batches: load moves those on, too.
  void save(const std::filesystem::path& path) const;
  void load(const std::filesystem::path& path, Objective<float>& objective);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Takes all steps that are left and returns Learner::better. The state goes to the file
// `checkpoint` (unless that is empty) at the start, from time to time, when the work is cancelled,
// and at the end; where the file exists the work goes on from there. Progress counts steps.
Element learn(Learner& learner, Objective<float>& objective, const Learning& learning,
              const std::filesystem::path& checkpoint, Progress& progress);

}  // namespace regauge
