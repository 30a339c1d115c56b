#include "regauge/action/fold.h"

#include <fmt/format.h>

#include "regauge/base/error.h"
#include "rewriting.h"

namespace regauge::cli {

void add_fold(CLI::App& app, int& exit_code) {
  struct Options : RewriteOptions {
    bool centre = false;
    bool gains_only = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "fold",
      "Move the norms' gains and biases into the linear maps that read them, and layer scales "
      "into those before them");
  options->declare(*verb, true);
  auto* centre = verb->add_flag("--centre", options->centre,
                                "layer norms: also remove what they cannot see from every writer");
  verb->add_flag("--gains-only", options->gains_only, "leave the biases where they are")
      ->excludes(centre);
  options->declare_save_element(*verb);
  verb->callback([options, &exit_code] {
    const Model model = Model::open(options->model);
    if (options->centre && model.architecture.norm == Norm::rms) {
      throw UsageError(
          "fold --centre: an rms norm sees the mean; centring its writers changes the function");
    }
    const ParameterSource source(model, options->target_architecture(model));
    const Symmetry symmetry = symmetry_of(source.architecture());
    const FoldOptions what{
        .gains = true, .biases = !options->gains_only, .centring = options->centre};
    const auto progress = make_progress_of(options->jobs);
    const Element element = fold_element(symmetry, source.reader(), what, *progress);
    options->carry_out(source, symmetry, element, Rewrite::same_as(model));
    exit_code = 0;
  });
}

}  // namespace regauge::cli
