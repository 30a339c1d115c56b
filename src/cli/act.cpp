#include <fmt/format.h>

#include <cstdio>
#include <limits>

#include "regauge/base/error.h"
#include "rewriting.h"

namespace regauge::cli {
namespace {

std::set<Category> categories(const std::vector<std::string>& names) {
  if (names.empty()) return all_categories();
  std::set<Category> result;
  for (const auto& name : names) result.insert(category_from_name(name));
  return result;
}

}  // namespace

void add_act(CLI::App& app, int& exit_code) {
  struct Options : RewriteOptions {
    std::string element;
    std::uint64_t seed = 0;
    std::vector<std::string> only;
    bool inverse = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("act", "Write a model with other numbers and the same function");
  options->declare(*verb, true);
  auto* element =
      verb->add_option("--element", options->element, "apply the group element in this file");
  auto* random = verb->add_option("--random", options->seed,
                                  "apply a random element, drawn with this seed (a whole number)");
  random->check([](const std::string& text) {
    const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
    return digits ? "" : fmt::format("'{}' is not a whole number from 0 on", text);
  });
  element->excludes(random);
  verb->add_option("--only", options->only, "draw only these factors: " + category_names(", "))
      ->delimiter(',')
      ->needs(random);
  verb->add_flag("--inverse", options->inverse, "apply the inverse of the element, the way back");
  options->declare_save_element(*verb);
  verb->callback([options, random, element, &exit_code] {
    if (random->count() + element->count() == 0) {
      throw UsageError("act: say which element: --random SEED or --element FILE");
    }
    const Model model = Model::open(options->model);
    const ParameterSource source(model, options->target_architecture(model));
    const Symmetry symmetry = symmetry_of(source.architecture());
    Element chosen;
    if (element->count() > 0) {
      chosen = load_element(symmetry, options->element);
    } else {
      const auto draw = [&](Blocks blocks) {
        return random_element(symmetry, options->seed, categories(options->only), blocks);
      };
      // What is to be known before a long draw, and all that a plan asks.
      chosen = draw(Blocks::identity);
      if (!options->dry_run) {
        options->check(source, symmetry, chosen, Rewrite::same_as(model));
        chosen = draw(Blocks::random);
      }
    }
    if (options->inverse) chosen = inverse(symmetry, chosen);
    options->carry_out(source, symmetry, chosen, Rewrite::same_as(model));
    exit_code = 0;
  });
}

}  // namespace regauge::cli
