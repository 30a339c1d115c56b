#include "regauge/equivalence/canon.h"

#include "print.h"
#include "rewriting.h"

namespace regauge::cli {

void add_canon(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RewriteOptions>();
  CLI::App* verb = app.add_subcommand(
      "canon", "Write the canonical form of a model: equal models become nearly equal files");
  options->declare(*verb, true);
  options->declare_save_element(*verb);
  verb->callback([options, &exit_code] {
    const Model model = Model::open(options->model);
    const ParameterSource source(model, options->target_architecture(model));
    const Symmetry symmetry = symmetry_of(source.architecture());
    options->check(source, symmetry,
                   random_element(symmetry, 0, all_categories(), Blocks::identity),
                   Rewrite::same_as(model));
    const auto progress = make_progress_of(options->jobs);
    const Canon form = canon(symmetry, source, *progress);
    for (const auto& limit : form.limits) {
      say("regauge: another copy may come out otherwise here: {}\n", limit);
    }
    options->carry_out(source, symmetry, form.element, Rewrite::same_as(model));
    exit_code = 0;
  });
}

}  // namespace regauge::cli
