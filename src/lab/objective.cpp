#include "regauge/lab/objective.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "cross_entropy.h"
#include "regauge/base/error.h"
#include "sampler.h"
#include "transformer.h"

namespace regauge::lab {
namespace {

// One pass of an evaluation takes at most so many sequences, and so many outputs.
constexpr std::int64_t kSequences = 64, kOutputs = std::int64_t{1} << 26;

// Batches through the forward pass; how the outputs are judged is the heirs' business.
template <class Scalar>
class DataObjective : public Objective<Scalar> {
 public:
  DataObjective(const Architecture& architecture, std::shared_ptr<const Data> data,
                std::int64_t size, std::uint64_t seed)
      : sampler_(std::move(data), size, seed),
        batch_(sampler_.next()),
        transformer_(architecture, batch_.length, kType<Scalar>) {}

  double evaluate(const Parameters<Scalar>& parameters, Parameters<Scalar>* gradient) override {
    const c10::AutoGradMode differentiate(gradient != nullptr);
    Tensors tensors = view(parameters);
    std::vector<at::Tensor> leaves;
    for (auto& [name, tensor] : tensors) {
      leaves.push_back(tensor.set_requires_grad(gradient != nullptr));
    }
    const at::Tensor loss = judge(transformer_(tensors, batch_));
    if (gradient != nullptr) {
      const auto slopes = torch::autograd::grad({loss}, leaves, {}, std::nullopt, false, true);
      gradient->clear();
      std::size_t i = 0;
      for (const auto& [name, value] : parameters) {
        const at::Tensor& slope = slopes[i++];
        (*gradient)[name] = slope.defined() ? matrix<Scalar>(slope)
                                            : Matrix<Scalar>::Zero(value.rows(), value.cols());
      }
    }
    return loss.item<double>();
  }

  void advance() override { batch_ = sampler_.next(); }

 protected:
  virtual at::Tensor judge(const at::Tensor& outputs) = 0;
  const Batch& batch() const { return batch_; }
  at::Tensor outputs(const Parameters<Scalar>& parameters) const {
    return transformer_(view(parameters), batch_);
  }

 private:
  Sampler sampler_;
  Batch batch_;
  Transformer transformer_;
};

template <class Scalar>
class TaskLoss final : public DataObjective<Scalar> {
 public:
  using DataObjective<Scalar>::DataObjective;

 private:
  at::Tensor judge(const at::Tensor& outputs) override {
    return cross_entropy(outputs, this->batch());
  }
};

template <class Scalar>
class Distillation final : public DataObjective<Scalar> {
 public:
  Distillation(const Architecture& architecture, Parameters<Scalar> a, Parameters<Scalar> b,
               std::shared_ptr<const Data> data, std::int64_t size, std::uint64_t seed)
      : DataObjective<Scalar>(architecture, std::move(data), size, seed),
        a_(std::move(a)),
        b_(std::move(b)) {}

  void place(double t) override { t_ = t; }
  void advance() override {
    DataObjective<Scalar>::advance();
    at_a_ = at::Tensor();
  }

 private:
  at::Tensor judge(const at::Tensor& outputs) override {
    if (!at_a_.defined()) look_at_the_ends();
    const at::Tensor expected = (1 - t_) * at_a_ + t_ * at_b_;
    const at::Tensor found = at::log_softmax(counted(outputs), 1);
    return (at::xlogy(expected, expected) - expected * found).sum() /
           static_cast<double>(expected.size(0));
  }

  // The rows that have targets.
  at::Tensor counted(const at::Tensor& outputs) const {
    const at::Tensor rows = outputs.flatten(0, -2);
    const at::Tensor counts = labels(this->batch(), rows.size(0)) != kIgnore;
    return rows.index_select(0, counts.nonzero().squeeze(1));
  }

  void look_at_the_ends() {
    const c10::NoGradGuard no_gradient;
    at_a_ = at::softmax(counted(this->outputs(a_)), 1);
    at_b_ = at::softmax(counted(this->outputs(b_)), 1);
    if (at_a_.size(0) == 0) throw UsageError("no example of this batch has a target");
  }

  Parameters<Scalar> a_, b_;
  double t_ = 0;
  at::Tensor at_a_, at_b_;  // what the ends predict on this batch, once asked for
};

// logits_of(transformer, batch) gives logits for every position, or log-probabilities.
template <class Scalar, class LogitsOf>
Score score_of(const Architecture& architecture, const Data& data, std::int64_t most,
               Progress& progress, const LogitsOf& logits_of) {
  const c10::NoGradGuard no_gradient;
  const std::int64_t all = (data.size() + data.stride() - 1) / data.stride();
  const std::int64_t count = most > 0 ? std::min(most, all) : all;
  const std::int64_t length = data.batch(std::array<std::int64_t, 1>{0}).length;
  const Transformer transformer(architecture, length, kType<Scalar>);
  const std::int64_t outputs =
      architecture.outputs() * (architecture.output == Output::classes ? 1 : length);
  const std::int64_t at_once = std::clamp<std::int64_t>(kOutputs / outputs, 1, kSequences);
  Score score;
  std::int64_t correct = 0;
  progress.start("evaluating", count);
  for (std::int64_t first = 0; first < count; first += at_once) {
    std::vector<std::int64_t> examples;
    for (std::int64_t i = first; i < std::min(first + at_once, count); ++i) {
      examples.push_back(i * all / count * data.stride());
    }
    const Batch batch = data.batch(examples);
    const at::Tensor logits = logits_of(transformer, batch).flatten(0, -2);
    const at::Tensor targets = labels(batch, logits.size(0));
    const at::Tensor losses =
        at::cross_entropy_loss(logits, targets, {}, at::Reduction::None, kIgnore)
            .to(at::kDouble)
            .view({batch.sequences, -1});
    const at::Tensor counted = (targets != kIgnore).view({batch.sequences, -1}).sum(1);
    correct += (logits.argmax(1) == targets).sum().item<std::int64_t>();
    for (std::int64_t i = 0; i < batch.sequences; ++i) {
      score.by_example.push_back({losses[i].sum().item<double>(), counted[i].item<std::int64_t>()});
    }
    progress.advance(batch.sequences);
  }
  progress.finish();
  double sum = 0;
  for (const auto& example : score.by_example) {
    sum += example.loss;
    score.targets += example.targets;
  }
  if (score.targets == 0) throw UsageError("no example of this data has a target");
  score.examples = count;
  const auto targets = static_cast<double>(score.targets);
  score.loss = sum / targets;
  score.accuracy = static_cast<double>(correct) / targets;
  // Of the ratio of two sums, to first order.
  double spread = 0;
  for (const auto& example : score.by_example) {
    spread += std::pow(example.loss - score.loss * static_cast<double>(example.targets), 2);
  }
  const auto n = static_cast<double>(count);
  score.loss_error = std::sqrt(spread * n / (n - 1)) / targets;
  return score;
}

}  // namespace

template <class Scalar>
std::unique_ptr<Objective<Scalar>> make_objective(const Architecture& architecture,
                                                  std::shared_ptr<const Data> data,
                                                  std::int64_t size, std::uint64_t seed) {
  return std::make_unique<TaskLoss<Scalar>>(architecture, std::move(data), size, seed);
}

template <class Scalar>
std::unique_ptr<Objective<Scalar>> make_distillation(const Architecture& architecture,
                                                     Parameters<Scalar> a, Parameters<Scalar> b,
                                                     std::shared_ptr<const Data> data,
                                                     std::int64_t size, std::uint64_t seed) {
  return std::make_unique<Distillation<Scalar>>(architecture, std::move(a), std::move(b),
                                                std::move(data), size, seed);
}

template <class Scalar>
Score evaluate(const Architecture& architecture, const Parameters<Scalar>& parameters,
               const Data& data, std::int64_t most, Progress& progress) {
  const Tensors tensors = view(parameters);
  return score_of<Scalar>(
      architecture, data, most, progress,
      [&](const Transformer& run, const Batch& batch) { return run(tensors, batch); });
}

template <class Scalar>
Score evaluate_ensemble(const Architecture& architecture, const Parameters<Scalar>& a,
                        const Parameters<Scalar>& b, const Data& data, std::int64_t most,
                        Progress& progress) {
  const Tensors in_a = view(a), in_b = view(b);
  return score_of<Scalar>(architecture, data, most, progress,
                          [&](const Transformer& run, const Batch& batch) {
                            return at::logaddexp(at::log_softmax(run(in_a, batch), -1),
                                                 at::log_softmax(run(in_b, batch), -1)) -
                                   std::numbers::ln2;
                          });
}

template std::unique_ptr<Objective<float>> make_objective(const Architecture&,
                                                          std::shared_ptr<const Data>, std::int64_t,
                                                          std::uint64_t);
template std::unique_ptr<Objective<double>> make_objective(const Architecture&,
                                                           std::shared_ptr<const Data>,
                                                           std::int64_t, std::uint64_t);
template std::unique_ptr<Objective<float>> make_distillation(const Architecture&, Parameters<float>,
                                                             Parameters<float>,
                                                             std::shared_ptr<const Data>,
                                                             std::int64_t, std::uint64_t);
template std::unique_ptr<Objective<double>> make_distillation(const Architecture&,
                                                              Parameters<double>,
                                                              Parameters<double>,
                                                              std::shared_ptr<const Data>,
                                                              std::int64_t, std::uint64_t);
template Score evaluate(const Architecture&, const Parameters<float>&, const Data&, std::int64_t,
                        Progress&);
template Score evaluate(const Architecture&, const Parameters<double>&, const Data&, std::int64_t,
                        Progress&);
template Score evaluate_ensemble(const Architecture&, const Parameters<float>&,
                                 const Parameters<float>&, const Data&, std::int64_t, Progress&);
template Score evaluate_ensemble(const Architecture&, const Parameters<double>&,
                                 const Parameters<double>&, const Data&, std::int64_t, Progress&);

}  // namespace regauge::lab
