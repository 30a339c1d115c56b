#include "regauge/lab/sample.h"

#include "regauge/base/error.h"
#include "regauge/base/random.h"
#include "regauge/lab/forward.h"

namespace regauge::lab {
namespace {

class SampledData final : public Data {
 public:
  SampledData(std::vector<std::vector<std::int64_t>> sequences)
      : sequences_(std::move(sequences)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(sequences_.size()); }

  Batch batch(std::span<const std::int64_t> examples) const override {
    Batch batch;
    batch.sequences = static_cast<std::int64_t>(examples.size());
    batch.length = static_cast<std::int64_t>(sequences_.front().size()) - 1;
    for (const std::int64_t example : examples) {
      const auto& tokens = sequences_[static_cast<std::size_t>(example)];
      batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end() - 1);
      batch.targets.insert(batch.targets.end(), tokens.begin() + 1, tokens.end());
    }
    return batch;
  }

 private:
  std::vector<std::vector<std::int64_t>> sequences_;  // length + 1 tokens each
};

std::int64_t draw(const Eigen::RowVectorXd& logits, Random& random) {
  const Eigen::RowVectorXd weights = (logits.array() - logits.maxCoeff()).exp();
  double left = random.uniform() * weights.sum();
  for (Eigen::Index i = 0; i < weights.size(); ++i) {
    left -= weights(i);
    if (left < 0) return i;
  }
  return weights.size() - 1;
}

}  // namespace

std::unique_ptr<Data> sample_data(const Architecture& architecture,
                                  const std::vector<const Parameters<float>*>& writers,
                                  std::int64_t sequences, std::int64_t length, std::uint64_t seed,
                                  Progress& progress) {
  if (architecture.input != Input::tokens || architecture.output != Output::tokens ||
      !architecture.causal || architecture.encoder_layers > 0) {
    throw UsageError(
        "self: only a causal model of one stack from tokens to tokens writes its own data");
  }
  if (length == 0) length = architecture.max_positions;
  if (sequences <= 0 || length <= 0) throw UsageError("self: nothing to write; give a length");
  Random random(seed, "self");
  std::vector<std::vector<std::int64_t>> written(static_cast<std::size_t>(sequences));
  for (auto& tokens : written) tokens.push_back(random.below(architecture.vocabulary));
  progress.start("sampling", length);
  for (std::int64_t t = 1; t <= length; ++t) {
    for (std::size_t writer = 0; writer < writers.size(); ++writer) {
      Batch batch;
      batch.length = t;
      for (std::size_t s = writer; s < written.size(); s += writers.size()) {
        batch.tokens.insert(batch.tokens.end(), written[s].begin(), written[s].end());
        ++batch.sequences;
      }
      if (batch.sequences == 0) continue;
      const Matrix<float> logits = forward(architecture, *writers[writer], batch);
      for (std::int64_t i = 0; i < batch.sequences; ++i) {
        const Eigen::RowVectorXd last = logits.row((i + 1) * t - 1).cast<double>();
        written[writer + static_cast<std::size_t>(i) * writers.size()].push_back(
            draw(last, random));
      }
    }
    progress.advance(1);
  }
  progress.finish();
  return std::make_unique<SampledData>(std::move(written));
}

}  // namespace regauge::lab
