#include "regauge/equivalence/diff.h"

#include <fmt/format.h>

#include <cstdio>

#include "regauge/base/error.h"
#include "regauge/equivalence/certificate.h"
#include "residual_table.h"
#include "verb.h"

namespace regauge::cli {
namespace {

std::string sentence(const Diff& result) {
  switch (result.verdict) {
    case Verdict::same:
      return result.a_from_b.is_identity() ? "the same function: the same numbers"
                                           : "the same function, in other coordinates";
    case Verdict::perturbed:
      return "not the same function: one model, changed";
    case Verdict::different:
      return "not the same function";
    case Verdict::undecided:
      return "could not decide: no element was found, but there may be one";
  }
  return "";
}

}  // namespace

void add_diff(CLI::App& app, int& exit_code) {
  struct Options {
    std::string a, b, certificate;
    bool json = false;
    bool all = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("diff", "Are two models the same function? Shows it, or what differs");
  verb->add_option("A", options->a, "folder or file")->required();
  verb->add_option("B", options->b, "folder or file")->required();
  verb->add_option("--certificate", options->certificate,
                   "if they are the same, write what `regauge verify` needs to this file");
  verb->add_flag("--all", options->all, "the residual of every tensor, not only of the worst");
  verb->add_flag("--json", options->json, "everything as JSON");
  verb->footer("Exit: 0 the same function, 1 not the same or not decided.");
  verb->callback([options, &exit_code] {
    const Model a = Model::open(options->a);
    const Model b = Model::open(options->b);
    const auto progress = make_progress();
    const Diff result = diff(a, b, *progress);
    const bool same = result.verdict == Verdict::same;
    exit_code = same ? 0 : 1;
    if (same && !options->certificate.empty()) {
      save_certificate(
          symmetry_of(result.architecture),
          {result.a_from_b, fingerprint(a, *progress), fingerprint(b, *progress), result.residuals},
          options->certificate);
    }
    if (options->json) {
      const nlohmann::json summary = {{"verdict", verdict_name(result.verdict)},
                                      {"identity", result.a_from_b.is_identity()},
                                      {"reasons", result.reasons},
                                      {"tensors", residuals_as_json(result.residuals)}};
      fmt::print("{}\n", summary.dump(2));
      return;
    }
    fmt::print("{}\n", sentence(result));
    for (const auto& reason : result.reasons) fmt::print("  {}\n", reason);
    if (!result.residuals.empty()) print_residuals(result.residuals, options->all ? 0 : 8);
  });
}

}  // namespace regauge::cli
