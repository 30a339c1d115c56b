#include "regauge/lab/objective.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "regauge/base/error.h"
#include "sampler.h"
#include "transformer.h"

namespace regauge::lab {
namespace {

// One pass of an evaluation takes at most so many sequences, and so many outputs.
constexpr std::int64_t kSequences = 64, kOutputs = std::int64_t{1} << 26;

template <class Scalar>
class DataObjective final : public Objective<Scalar> {
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
    const at::Tensor loss = cross_entropy(transformer_(tensors, batch_), batch_);
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

 private:
  Sampler sampler_;
  Batch batch_;
  Transformer transformer_;
};

}  // namespace

template <class Scalar>
std::unique_ptr<Objective<Scalar>> make_objective(const Architecture& architecture,
                                                  std::shared_ptr<const Data> data,
                                                  std::int64_t size, std::uint64_t seed) {
  return std::make_unique<DataObjective<Scalar>>(architecture, std::move(data), size, seed);
}

template <class Scalar>
Score evaluate(const Architecture& architecture, const Parameters<Scalar>& parameters,
               const Data& data, std::int64_t most, Progress& progress) {
  const c10::NoGradGuard no_gradient;
  const std::int64_t all = (data.size() + data.stride() - 1) / data.stride();
  const std::int64_t count = most > 0 ? std::min(most, all) : all;
  const Tensors tensors = view(parameters);
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
    const at::Tensor logits = transformer(tensors, batch).flatten(0, -2);
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

template std::unique_ptr<Objective<float>> make_objective(const Architecture&,
                                                          std::shared_ptr<const Data>, std::int64_t,
                                                          std::uint64_t);
template std::unique_ptr<Objective<double>> make_objective(const Architecture&,
                                                           std::shared_ptr<const Data>,
                                                           std::int64_t, std::uint64_t);
template Score evaluate(const Architecture&, const Parameters<float>&, const Data&, std::int64_t,
                        Progress&);
template Score evaluate(const Architecture&, const Parameters<double>&, const Data&, std::int64_t,
                        Progress&);

}  // namespace regauge::lab
