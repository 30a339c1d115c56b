#include "regauge/lab/nullity.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>

#include "lab_verb.h"
#include "print.h"
#include "regauge/base/error.h"
#include "regauge/lab/train.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge::cli {
namespace {

std::pair<Architecture, Parameters<double>> load(const std::string& path, std::uint64_t seed) {
  if (!path.ends_with(".json")) {
    const Model model = Model::open(path);
    return {model.architecture, read_parameters(model)};
  }
  std::ifstream file(path);
  if (!file) throw FileError(fmt::format("{}: there is no such file", path));
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) throw UsageError(fmt::format("{}: not a JSON object", path));
  const Architecture architecture = architecture_from_json(json);
  return {architecture, random_parameters(architecture, seed)};
}

}  // namespace

void add_nullity(CLI::App& lab, int& exit_code) {
  struct Options {
    std::string model;
    std::uint64_t seed = 1;
    int threads = 0;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = lab.add_subcommand(
      "nullity",
      "Is the group complete? The null space of the outputs' derivative, against its dimension; "
      "exit 1 if they differ");
  verb->add_option("MODEL", options->model,
                   "folder or file of a small model, or the .json of an architecture of the family "
                   "regauge, at random parameters")
      ->required();
  verb->add_option("--seed", options->seed, "of the inputs, and of random parameters");
  verb->add_flag("--json", options->json, "everything, with all singular values, as JSON");
  declare_threads(*verb, options->threads);
  verb->callback([options, &exit_code] {
    lab::set_threads(options->threads);
    const auto [architecture, parameters] = load(options->model, options->seed);
    const std::int64_t dimension = symmetry_of(architecture).dimension();
    const auto progress = make_progress();
    const lab::Nullity found =
        lab::measure_nullity(architecture, parameters, options->seed, *progress);
    const bool clear = found.has_clear_gap();
    const bool complete = clear && dimension == found.nullity;
    if (options->json) {
      const nlohmann::json result = {{"parameters", parameter_count(architecture)},
                                     {"nullity", found.nullity},
                                     {"dimension", dimension},
                                     {"smallest_kept", found.smallest_kept},
                                     {"largest_dropped", found.largest_dropped},
                                     {"stuck_units", found.stuck_units},
                                     {"singular_values", found.singular_values}};
      answer_json(result);
    } else {
      answer("parameters          {}\n", parameter_count(architecture));
      answer("nullity             {}  (singular values {:.1e} | {:.1e})\n", found.nullity,
             found.smallest_kept, found.largest_dropped);
      answer("dimension of group  {}  {}\n", dimension,
             dimension == found.nullity ? "the same: the group is complete here" : "not the same");
      if (found.stuck_units > 0) {
        answer(
            "{} ReLU units are off, or on, for nearly every input: the function is "
            "degenerate here; try another --seed\n",
            found.stuck_units);
      }
    }
    exit_code = complete ? 0 : 1;
  });
}

}  // namespace regauge::cli
