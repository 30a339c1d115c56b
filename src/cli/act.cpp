#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "regauge/action/moved_adapter.h"
#include "regauge/base/error.h"
#include "regauge/equivalence/compare.h"
#include "rewriting.h"

namespace regauge::cli {
namespace {

std::set<Category> categories(const std::vector<std::string>& names) {
  if (names.empty()) return all_categories();
  std::set<Category> result;
  for (const auto& name : names) result.insert(category_from_name(name));
  return result;
}

struct ActOptions : RewriteOptions {
  ActOptions() { dividing.emplace("act"); }

  std::string element;
  std::uint64_t seed = 0;
  std::vector<std::string> only;
  bool inverse = false;
  std::string adapter, adapter_output;
};

// Compares the moved base and adapter with the two that there were: a tensor that an element moves
// by what is in others is not what they add up to.
void check_adapter(const Model& both, const ActOptions& options, const Symmetry& symmetry,
                   const Element& element, Progress& progress) {
  const Model moved = Model::open(options.output + "+" + options.adapter_output);
  const ParameterSource before(both, symmetry.architecture), after(moved, symmetry.architecture);
  const auto residuals = compare(symmetry, inverse(symmetry, element), before, after, progress);
  const auto wrong = std::ranges::find_if(residuals, [](const auto& r) { return !r.agrees(); });
  if (wrong == residuals.end()) return;
  throw UsageError(fmt::format(
      "act: the adapter cannot follow this element, and was not written: {} depends on the sum of "
      "base and adapter; draw an element without shifts: --only {}",
      wrong->tensor, category_names(",", false)));
}

// What changes the bytes that are written. Parts have these in common, and the join takes them from
// the parts.
nlohmann::json divided_options(const ActOptions& options, bool random) {
  nlohmann::json json = {{"only", options.only},       {"inverse", options.inverse},
                         {"untie", options.untie},     {"dtype", options.dtype},
                         {"element", options.element}, {"random", nullptr}};
  if (random) json["random"] = options.seed;
  if (!options.element.empty()) json["element_hash"] = mark_of_file(options.element);
  return json;
}

// Whether the element is drawn.
bool take_options(const nlohmann::json& json, ActOptions& options) try {
  json.at("only").get_to(options.only);
  json.at("inverse").get_to(options.inverse);
  json.at("untie").get_to(options.untie);
  json.at("dtype").get_to(options.dtype);
  json.at("element").get_to(options.element);
  const bool random = !json.at("random").is_null();
  if (random) json.at("random").get_to(options.seed);
  return random;
} catch (const nlohmann::json::exception&) {
  throw UsageError("act: a part does not say what was asked; make it again");
}

// What goes with the whole model is the join's.
void check_division(const ActOptions& options) {
  if (!options.adapter.empty() || options.dry_run) {
    throw UsageError("act: --adapter and --dry-run cannot be divided into parts");
  }
  if (options.dividing->is_part() && (options.json || !options.save_element.empty())) {
    throw UsageError(
        "act: a part writes shards and nothing else; say --json and --save-element "
        "with --join");
  }
}

}  // namespace

void add_act(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ActOptions>();
  CLI::App* verb =
      app.add_subcommand("act", "Write a model with other numbers and the same function");
  options->declare(*verb, true);
  auto* element =
      verb->add_option("--element", options->element, "apply the group element in this file");
  auto* random = verb->add_option("--random", options->seed,
                                  "apply a random element, drawn with this seed (a whole number)");
  random->check(whole_number(0));
  element->excludes(random);
  verb->add_option("--only", options->only, "draw only these factors: " + category_names(", "))
      ->delimiter(',')
      ->needs(random);
  verb->add_flag("--inverse", options->inverse, "apply the inverse of the element, the way back");
  auto* adapter =
      verb->add_option("--adapter", options->adapter,
                       "a LoRA adapter of MODEL (a folder that PEFT wrote), which is to follow it");
  auto* adapter_output = verb->add_option("--adapter-output", options->adapter_output,
                                          "where the moved adapter goes; must not exist yet");
  adapter->needs(adapter_output);
  adapter_output->needs(adapter)->check(CLI::NonexistentPath)->type_name("PATH");
  options->declare_save_element(*verb);
  verb->callback([options, random, element, &exit_code] {
    Dividing& dividing = *options->dividing;
    const bool divided = dividing.is_part() || dividing.is_join();
    if (divided) check_division(*options);
    dividing.find_arguments({&options->model});
    bool draws = random->count() > 0;
    if (dividing.is_join()) {
      draws = take_options(dividing.options(), *options);
    } else if (random->count() + element->count() == 0) {
      throw UsageError("act: say which element: --random SEED or --element FILE");
    }
    const Model model = Model::open(options->model);
    if (divided) {
      dividing.begin(divided_options(*options, draws), {{options->model, &model.checkpoint}},
                     Progress::silent());
    }
    const ParameterSource source(model, options->target_architecture(model));
    const Symmetry symmetry = symmetry_of(source.architecture());
    Element chosen;
    if (!draws) {
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
    if (options->adapter.empty() || options->dry_run) {
      options->carry_out(source, symmetry, chosen, Rewrite::same_as(model));
    } else {
      const auto progress = make_progress_of(options->jobs);
      const Model both = Model::open(options->model + "+" + options->adapter);
      write_moved_adapter(both, options->adapter, symmetry, chosen, options->adapter_output,
                          *progress);
      try {
        options->carry_out(source, symmetry, chosen, Rewrite::same_as(model));
        check_adapter(both, *options, symmetry, chosen, *progress);
      } catch (...) {
        std::filesystem::remove_all(options->adapter_output);
        throw;
      }
    }
    exit_code = 0;
  });
}

}  // namespace regauge::cli
