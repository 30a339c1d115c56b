#include "regauge/align/align.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "align_task.h"
#include "regauge/arch/joint_architecture.h"
#include "regauge/base/error.h"
#include "regauge/equivalence/compare.h"
#include "rewriting.h"
#include "symmetry/require_layers.h"

namespace regauge::cli {
namespace {

struct AlignVerbOptions : RewriteOptions {
  std::string a, a_output, report, method = "weights", scope = "all", stream = "none";
  AlignOptions align;

  void declare_all(CLI::App& verb) {
    verb.add_option("A", a, "folder or file; is not changed")->required();
    declare(verb, true, "B");
    verb.add_option("--a-out", a_output,
                    "write A here too, in the same shape, where B is untied or given a bias");
    verb.add_option(
            "--method", method,
            "two_stage or weights; activations or learned, which take --data KIND:PATH|self "
            "and more: regauge-lab align --help")
        ->capture_default_str();
    verb.add_option("--scope", scope,
                    "what may move: all, attention, block, or categories as in `act --only`; :0 or "
                    ":0-3 for some layers only")
        ->capture_default_str();
    verb.add_option("--iterations", align.iterations, "the most iterations of each start")
        ->check(whole_number(1))
        ->capture_default_str();
    verb.add_option("--starts", align.starts, "number of random restarts; the best result is kept")
        ->check(whole_number(1))
        ->capture_default_str();
    verb.add_flag("--compact", align.compact,
                  "two_stage: use rotations and phases alone, without descent in the whole group");
    verb.add_flag("--neurons", align.neurons,
                  "two_stage: also match the feed-forward neurons by their weights");
    verb.add_option("--stream", stream,
                    "two_stage: map the residual stream first, fitted to embedding and head: "
                    "none, permutation or orthogonal")
        ->capture_default_str();
    verb.add_option("--seed", align.seed, "seed of the random starts")->capture_default_str();
    verb.add_option("--report", report, "write the course of the alignment to this file, as JSON");
    declare_save_element(verb);
  }

  // What would otherwise be refused after the work.
  void check_files(const Model& model_a) const {
    namespace fs = std::filesystem;
    if (!report.empty() && !fs::is_directory(fs::absolute(report).parent_path())) {
      throw FileError(fmt::format("align: {}: its folder does not exist", report));
    }
    if (a_output.empty() || dry_run) return;
    CheckpointWriter::check_path(a_output, Rewrite::same_as(model_a).format);
    if (fs::weakly_canonical(a_output) == fs::weakly_canonical(output)) {
      throw UsageError("align: -o and --a-out name the same file");
    }
  }

  void check_scope(const Symmetry& symmetry) const {
    require_layers(align.scope, symmetry.architecture.all_layers());
    const auto inside = [&](const auto& factor) { return align.scope.contains(factor); };
    if (std::any_of(symmetry.spaces.begin(), symmetry.spaces.end(), inside) ||
        std::any_of(symmetry.shifts.begin(), symmetry.shifts.end(), inside)) {
      return;
    }
    throw UsageError(fmt::format("align: there is nothing in --scope {} to move", scope));
  }
};

// Options that only the methods have that run models.
std::vector<std::string> foreign_options(const CLI::App& verb) {
  std::vector<std::string> names = verb.remaining();
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_group() == kOfRunningModels && option->count() > 0) {
      names.push_back(option->get_name());
    }
  }
  return names;
}

// As which both are read; with a tie or a bias that only one has, A must be written again.
Architecture common_shape(const AlignVerbOptions& options, const Model& a, const Model& b) {
  Architecture shape = require_joint_architecture(a.architecture, b.architecture);
  if (options.untie && !a.architecture.tied && !b.architecture.tied) {
    throw UsageError("align --untie: neither model is tied");
  }
  if (options.untie) shape.tied = false;
  const bool same_tensors = parameter_specs(shape).size() == parameter_specs(a.architecture).size();
  if (!same_tensors && options.a_output.empty() && !options.dry_run) {
    throw UsageError(
        "align: B in A's coordinates has tensors that A's file does not have (a head of its own, "
        "or a bias); say with --a-out where A in the same shape goes");
  }
  return shape;
}

void write_report(const std::string& path, const nlohmann::json& report) {
  std::ofstream file(path);
  file << report.dump(2) << '\n';
  if (!file.flush()) throw FileError(fmt::format("align: cannot write {}", path));
}

}  // namespace

void add_align(CLI::App& app, char** arguments, int& exit_code) {
  auto options = std::make_shared<AlignVerbOptions>();
  CLI::App* verb = app.add_subcommand(
      "align", "Write B in A's coordinates: of all models equal to B, the one nearest to A");
  options->declare_all(*verb);
  const LabAligner with_lab = declare_lab_align(*verb, arguments);
  verb->callback([options, with_lab, verb, &exit_code] {
    options->align.scope = Scope(options->scope);
    const AlignMethod method = method_from_name(options->method);
    const auto foreign = foreign_options(*verb);
    if (!runs_models(method) && !foreign.empty()) {
      throw UsageError(fmt::format("align: --method {} does not take {}", options->method,
                                   fmt::join(foreign, " ")));
    }
    options->align.stream = stream_map_from_name(options->stream);
    const bool widened = options->align.neurons || options->align.stream != StreamMap::none;
    if (widened && method != AlignMethod::two_stage) {
      throw UsageError("align: --neurons and --stream are of two_stage");
    }
    if (options->align.compact && method != AlignMethod::two_stage) {
      throw UsageError(method == AlignMethod::learned
                           ? "align: --compact is of two_stage; of learned: --set compact=true"
                           : "align: --compact is of two_stage");
    }
    const Model a = Model::open(options->a), b = Model::open(options->model);
    const Architecture shape = common_shape(*options, a, b);
    const Symmetry symmetry = symmetry_of(shape);
    const ParameterSource from_a(a, shape), from_b(b, shape);
    options->check(from_b, symmetry,
                   random_element(symmetry, 0, all_categories(), Blocks::identity),
                   Rewrite::same_as(b));
    options->check_files(a);
    options->check_scope(symmetry);
    const auto progress = make_progress_of(options->jobs);
    const AlignTask task{method, symmetry, from_a, from_b, options->align, *progress};
    const Alignment found = runs_models(method) ? with_lab(task)
                                                : align(method, symmetry, from_a.reader(),
                                                        from_b.reader(), options->align, *progress);
    if (!options->a_output.empty() && !options->dry_run) {
      const Element nothing;
      Rewrite(from_a, symmetry, nothing, Rewrite::same_as(a)).run(options->a_output, *progress);
    }
    if (!options->report.empty()) write_report(options->report, found.report);
    options->carry_out(from_b, symmetry, found.a_from_b, Rewrite::same_as(b));
    if (method == AlignMethod::learned && !options->dry_run) {
      std::filesystem::remove(learning_state(options->output));
    }
    exit_code = 0;
  });
}

}  // namespace regauge::cli
