#pragma once

#include <memory>
#include <vector>

#include "regauge/action/objective.h"
#include "regauge/arch/parameters.h"
#include "regauge/base/progress.h"
#include "regauge/lab/data.h"

namespace regauge::lab {

// The mean cross entropy in nats on batches of `size` examples drawn at random from the stream
// "batches" of `seed`. Instantiated for float and double.
template <class Scalar>
std::unique_ptr<Objective<Scalar>> make_objective(const Architecture& architecture,
                                                  std::shared_ptr<const Data> data,
                                                  std::int64_t size, std::uint64_t seed);

// On the line between two models, the divergence from what their ends predict: the mean over
// positions of KL((1-t) p_A + t p_B || p), in nats; 0 at both ends. No targets are read, but where
// there are none (kIgnore) nothing counts. Batches as above. Instantiated for float and double.
template <class Scalar>
std::unique_ptr<Objective<Scalar>> make_distillation(const Architecture& architecture,
                                                     Parameters<Scalar> a, Parameters<Scalar> b,
                                                     std::shared_ptr<const Data> data,
                                                     std::int64_t size, std::uint64_t seed);

// How a model does on data.
struct Score {
  double loss = 0;        // mean cross entropy of the targets, nats
  double loss_error = 0;  // its standard error, from the spread over examples; NaN for one
  double accuracy = 0;    // share of targets that the largest output names
  std::int64_t examples = 0;
  std::int64_t targets = 0;

  // Summed over the targets of each example, in order: two models on the same data are compared
  // example by example.
  struct Example {
    double loss = 0;
    std::int64_t targets = 0;
  };
  std::vector<Example> by_example;
};

// Walks the data in order, every stride-th example, `most` of them at equal distances (0: all).
// Progress counts examples. Instantiated for float and double.
template <class Scalar>
Score evaluate(const Architecture& architecture, const Parameters<Scalar>& parameters,
               const Data& data, std::int64_t most, Progress& progress);

// The same of an ensemble: the mean of what two models predict, (p_A + p_B) / 2.
template <class Scalar>
Score evaluate_ensemble(const Architecture& architecture, const Parameters<Scalar>& a,
                        const Parameters<Scalar>& b, const Data& data, std::int64_t most,
                        Progress& progress);

}  // namespace regauge::lab
