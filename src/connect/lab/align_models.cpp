#include "connect/align_models.h"

#include <fmt/format.h>

#include "align/activations/activations.h"
#include "align/comparable_pair.h"
#include "regauge/base/error.h"
#include "regauge/lab/activations.h"
#include "regauge/lab/objective.h"
#include "symmetry/require_layers.h"

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
        pair_(in_form(1)),
        start_(start()) {
    if (!reverses_stream(start_)) return;
    pair_ = in_form(-1);  // what B's form depends on
    start_ = start();
  }

  Alignment activations() const {
    return {pair_.between_models(start_), {{"batches", settings_.batches}}};
  }

  Alignment learned(const std::filesystem::path& state) const {
    Learner learner(models_.symmetry, pair_.a(), pair_.b(), start_, settings_.learning,
                    settings_.options.scope);
    const auto seed = settings_.learning.seed;
    const auto objective =
        settings_.loss == "task"
            ? lab::make_objective<float>(architecture_, data_, settings_.batch, seed)
            : lab::make_distillation<float>(architecture_, cast<float>(pair_.a()),
                                            cast<float>(pair_.b()), data_, settings_.batch, seed);
    const Element found = learn(learner, *objective, settings_.learning, state, progress_);
    nlohmann::json report = learner.report();
    report["start"] = settings_.start;
    report["loss"] = settings_.loss;
    const bool moved = distance(models_.symmetry, found, learner.a_from_b()) == 0;
    report["kept"] = moved ? "end" : "start";
    return {pair_.between_models(found), report};
  }

 private:
  ComparablePair in_form(double sign_of_b) const {
    return {models_.symmetry,        models_.a.reader(), models_.b.reader(),
            settings_.options.scope, progress_,          sign_of_b};
  }

  Element start() const {
    const bool by_weights =
        settings_.method == AlignMethod::learned && settings_.start == "weights";
    return by_weights ? from_weights() : from_activations();
  }

  Element from_activations() const {
    const auto activations =
        lab::make_activations(architecture_, cast<float>(pair_.a()), cast<float>(pair_.b()), data_,
                              settings_.batches, settings_.batch, settings_.options.seed);
    return align_by_activations(models_.symmetry, pair_.a(), pair_.b(), *activations,
                                settings_.options.scope, progress_);
  }

  Element from_weights() const {
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
  Element start_;  // between the forms
};

}  // namespace

Alignment align_models(const ModelPair& pair, const AlignSettings& settings,
                       std::shared_ptr<const lab::Data> data, const std::filesystem::path& state,
                       Progress& progress) {
  require_layers(settings.options.scope, pair.symmetry.architecture.layers);
  if (!runs_models(settings.method) || data == nullptr) {
    return align(settings.method, pair.symmetry, pair.a.reader(), pair.b.reader(), settings.options,
                 progress);
  }
  const Aligner aligner(pair, settings, std::move(data), progress);
  Alignment found =
      settings.method == AlignMethod::learned ? aligner.learned(state) : aligner.activations();
  found.report["method"] = method_name(settings.method);
  return found;
}

}  // namespace regauge::connect
