#include <fmt/format.h>

#include <filesystem>

#include "../align_task.h"
#include "lab_verb.h"
#include "regauge/align/activations.h"
#include "regauge/align/comparable_pair.h"
#include "regauge/align/learned.h"
#include "regauge/base/error.h"
#include "regauge/lab/activations.h"
#include "regauge/lab/objective.h"
#include "regauge/lab/train.h"

namespace regauge::cli {
namespace {

struct Options {
  DataOptions data;
  std::int64_t batch = 32, batches = 8;
  std::string start = "activations", loss = "distillation";
  std::vector<std::string> settings;
  int threads = 0;

  void declare(CLI::App& verb) {
    CLI::Option* option = data.declare(verb);
    option->description("of activations and learned: " + option->get_description());
    verb.add_option("--batch", batch, "examples at a time, of activations and learned")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    verb.add_option("--batches", batches, "of activations")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    verb.add_option("--start", start, "of learned")
        ->check(CLI::IsMember({"activations", "weights"}))
        ->capture_default_str();
    verb.add_option("--loss", loss,
                    "of learned: task, or distillation of what A and B predict, without labels")
        ->check(CLI::IsMember({"task", "distillation"}))
        ->capture_default_str();
    verb.add_option("--set", settings,
                    "KEY=VALUE of learned: steps, rate, compact, ...; docs/alignment.md has them");
    declare_threads(verb, threads);
  }

  Learning learning(std::uint64_t seed) const {
    nlohmann::json json = {{"seed", seed}};
    for (const auto& setting : settings) {
      const auto equals = setting.find('=');
      const auto value = nlohmann::json::parse(
          equals == std::string::npos ? "" : setting.substr(equals + 1), nullptr, false);
      if (value.is_discarded()) {
        throw UsageError(fmt::format("--set {}: expected KEY=VALUE, a number or true", setting));
      }
      json[setting.substr(0, equals)] = value;
    }
    return learning_from_json(json);
  }
};

class Aligner {
 public:
  Aligner(const Options& options, const AlignTask& task, std::string output)
      : options_(options),
        task_(task),
        architecture_(task.symmetry.architecture),
        output_(std::move(output)),
        pair_(task.symmetry, task.a.reader(), task.b.reader(), task.options.scope, task.progress),
        data_(options.data.open(architecture_, {&task.a.model(), &task.b.model()}, task.progress)) {
  }

  Alignment run() {
    const bool learns = task_.method == AlignMethod::learned;
    const Element relative = learns ? learned() : by_activations();
    return {pair_.between_models(relative), report_};
  }

 private:
  Element by_activations() const {
    const auto activations =
        lab::make_activations(architecture_, cast<float>(pair_.a()), cast<float>(pair_.b()), data_,
                              options_.batches, options_.batch, task_.options.seed);
    return task_.options.scope.restrict(
        task_.symmetry,
        align_by_activations(task_.symmetry, pair_.a(), pair_.b(), *activations, task_.progress));
  }

  Element by_weights() const {
    const Alignment found = align_weights(task_.symmetry, task_.a.reader(), task_.b.reader(),
                                          task_.options, task_.progress);
    return pair_.between_forms(found.a_from_b);
  }

  Element learned() {
    const Learning learning = options_.learning(task_.options.seed);
    const Element start = options_.start == "weights" ? by_weights() : by_activations();
    Learner learner(task_.symmetry, pair_.a(), pair_.b(), start, learning, task_.options.scope);
    const auto objective =
        options_.loss == "task"
            ? lab::make_objective<float>(architecture_, data_, options_.batch, learning.seed)
            : lab::make_distillation<float>(architecture_, cast<float>(pair_.a()),
                                            cast<float>(pair_.b()), data_, options_.batch,
                                            learning.seed);
    const Element found =
        learn(learner, *objective, learning, learning_state(output_), task_.progress);
    report_ = learner.report();
    return found;
  }

  const Options& options_;
  const AlignTask& task_;
  const Architecture& architecture_;
  std::string output_;
  ComparablePair pair_;
  std::shared_ptr<const lab::Data> data_;
  nlohmann::json report_;
};

}  // namespace

LabAligner declare_lab_align(CLI::App& verb, char**) {
  auto options = std::make_shared<Options>();
  options->declare(verb);
  return [options, &verb](const AlignTask& task) -> Alignment {
    lab::set_threads(options->threads);
    if (options->data.spec.empty()) {
      throw UsageError(fmt::format("align --method {} needs --data: KIND:PATH, or self",
                                   method_name(task.method)));
    }
    const auto output = verb.get_option("--output")->as<std::string>();
    if (std::filesystem::exists(output)) {  // said now, and not after the work
      throw UsageError(fmt::format("{} exists; choose another output", output));
    }
    return Aligner(*options, task, output).run();
  };
}

}  // namespace regauge::cli
