#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "../align_task.h"
#include "connect/align_models.h"
#include "lab_verb.h"
#include "regauge/base/error.h"
#include "regauge/lab/train.h"

namespace regauge::cli {
namespace {

struct AlignTaskOptions {
  DataOptions data;
  std::int64_t batch = 32, batches = 8;
  std::string start = "activations", loss = "distillation";
  std::vector<std::string> settings_of_learned;
  int threads = 0;

  void declare(CLI::App& verb) {
    CLI::Option* option = data.declare(verb);
    option->description("of activations and learned: " + option->get_description());
    verb.add_option("--batch", batch, "examples at a time, of activations and learned")
        ->check(whole_number(1))
        ->capture_default_str();
    verb.add_option("--batches", batches, "of activations")
        ->check(whole_number(1))
        ->capture_default_str();
    verb.add_option("--start", start, "of learned")
        ->check(CLI::IsMember({"activations", "weights"}))
        ->capture_default_str();
    verb.add_option("--loss", loss,
                    "of learned: task, or distillation of what A and B predict, without labels")
        ->check(CLI::IsMember({"task", "distillation"}))
        ->capture_default_str();
    verb.add_option("--set", settings_of_learned,
                    "KEY=VALUE of learned: steps, rate, compact, ...; docs/alignment.md has them");
    declare_threads(verb, threads);
  }

  connect::AlignSettings settings(const AlignTask& task) const {
    nlohmann::json learning = {{"seed", task.options.seed}};
    apply_settings(settings_of_learned, learning);
    return {task.method, task.options, batch, batches, start, loss, learning_from_json(learning)};
  }
};

}  // namespace

LabAligner declare_lab_align(CLI::App& verb, char**) {
  auto options = std::make_shared<AlignTaskOptions>();
  const std::size_t of_all = verb.get_options().size();
  options->declare(verb);
  const auto all = verb.get_options();
  for (std::size_t i = of_all; i < all.size(); ++i) all[i]->group(kOfRunningModels);
  return [options, &verb](const AlignTask& task) -> Alignment {
    lab::set_threads(options->threads);
    if (options->data.spec.empty()) {
      throw UsageError(fmt::format("align --method {} needs --data: KIND:PATH, or self",
                                   method_name(task.method)));
    }
    const auto output = verb.get_option("--output")->as<std::string>();
    const bool dry_run = verb.get_option("--dry-run")->count() > 0;
    const Architecture& architecture = task.symmetry.architecture;
    return connect::align_models(
        {task.symmetry, task.a, task.b}, options->settings(task),
        options->data.open(architecture, {&task.a.model(), &task.b.model()}, task.progress),
        dry_run ? std::string() : learning_state(output), task.progress);
  };
}

}  // namespace regauge::cli
