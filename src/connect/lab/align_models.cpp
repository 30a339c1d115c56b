#include "regauge/connect/align_models.h"

#include <fmt/format.h>

#include "regauge/align/activations.h"
#include "regauge/align/comparable_pair.h"
#include "regauge/base/error.h"
#include "regauge/lab/activations.h"
#include "regauge/lab/objective.h"

namespace regauge::connect {
namespace {

// The methods that run models.
class Aligner {
 public:
  Aligner(const ModelPair& models, const AlignSettings& settings,
          std::shared_ptr<const lab::Data> data, Progress& progress)
      : models_(models),
        settings_(settings),
        architecture_(models.symmetry.architecture),
        data_(std::move(data)),
        progress_(progress),
        pair_(models.symmetry, models.a.reader(), models.b.reader(), settings.options.scope,
              progress) {}

  Alignment activations() const { return {pair_.between_models(by_activations()), {}}; }

  Alignment learned(const std::filesystem::path& state) const {
    const Element start = settings_.start == "weights" ? by_weights() : by_activations();
    Learner learner(models_.symmetry, pair_.a(), pair_.b(), start, settings_.learning,
                    settings_.options.scope);
    const auto seed = settings_.learning.seed;
    const auto objective =
        settings_.loss == "task"
            ? lab::make_objective<float>(architecture_, data_, settings_.batch, seed)
            : lab::make_distillation<float>(architecture_, cast<float>(pair_.a()),
                                            cast<float>(pair_.b()), data_, settings_.batch, seed);
    const Element found = learn(learner, *objective, settings_.learning, state, progress_);
    return {pair_.between_models(found), learner.report()};
  }

 private:
  Element by_activations() const {
    const auto activations =
        lab::make_activations(architecture_, cast<float>(pair_.a()), cast<float>(pair_.b()), data_,
                              settings_.batches, settings_.batch, settings_.options.seed);
    return settings_.options.scope.restrict(
        models_.symmetry,
        align_by_activations(models_.symmetry, pair_.a(), pair_.b(), *activations, progress_));
  }

  Element by_weights() const {
    const Alignment found = align_weights(models_.symmetry, models_.a.reader(), models_.b.reader(),
                                          settings_.options, progress_);
    return pair_.between_forms(found.a_from_b);
  }

  const ModelPair& models_;
  const AlignSettings& settings_;
  const Architecture& architecture_;
  std::shared_ptr<const lab::Data> data_;
  Progress& progress_;
  ComparablePair pair_;
};

}  // namespace

Alignment align_models(const ModelPair& pair, const AlignSettings& settings,
                       std::shared_ptr<const lab::Data> data, const std::filesystem::path& state,
                       Progress& progress) {
  const auto a = pair.a.reader(), b = pair.b.reader();
  switch (settings.method) {
    case AlignMethod::two_stage:
      return align_two_stage(pair.symmetry, a, b, settings.options, progress);
    case AlignMethod::weights:
      return align_weights(pair.symmetry, a, b, settings.options, progress);
    default:
      break;
  }
  if (data == nullptr) {
    throw UsageError(
        fmt::format("[align] {} needs data to run the models on", method_name(settings.method)));
  }
  const Aligner aligner(pair, settings, std::move(data), progress);
  return settings.method == AlignMethod::learned ? aligner.learned(state) : aligner.activations();
}

}  // namespace regauge::connect
