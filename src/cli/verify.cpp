

#include "dividing.h"
#include "print.h"
#include "regauge/equivalence/in_toto.h"
#include "residual_table.h"
#include "verb.h"

namespace regauge::cli {
namespace {

struct VerifyOptions {
  std::string a, b, certificate, output;
  bool json = false;
  int jobs = 1;
  Dividing dividing{"verify"};
};

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verb = app.add_subcommand(
      "verify", "Check a certificate that two models are the same function: apply it and compare");
  verb->add_option("A", options->a, "folder or file");
  verb->add_option("B", options->b, "folder or file");
  verb->add_option("CERT", options->certificate,
                   "made by `regauge diff --certificate`, or a statement of --in-toto beside it");
  verb->add_option("-o,--output", options->output, "where a part's record goes");
  declare_jobs(*verb, options->jobs);
  options->dividing.declare(*verb);
  verb->add_flag("--json", options->json, "every tensor's residual as JSON");
  verb->footer("Exit: 0 the certificate holds, 1 it does not.");
  verb->callback([options, &exit_code] {
    Dividing& dividing = options->dividing;
    dividing.find_arguments({&options->a, &options->b, &options->certificate});
    if (dividing.is_part() == options->output.empty()) {
      throw UsageError("verify: -o says where the record of a --part goes");
    }
    const Model a = Model::open(options->a);
    const Model b = Model::open(options->b);
    const auto undivided = make_progress_of(options->jobs);
    const Checkpoint proof = Checkpoint::open(certificate_of(options->certificate));
    dividing.begin(
        {},
        {{options->a, &a.checkpoint}, {options->b, &b.checkpoint}, {options->certificate, &proof}},
        *undivided);
    const auto check = [&] { return verify(a, b, options->certificate, dividing.progress()); };
    if (dividing.is_part()) {
      dividing.make_part(check, options->output);
      exit_code = 0;
      return;
    }
    const Verification result = check();
    exit_code = result.holds() ? 0 : 1;
    if (options->json) {
      const nlohmann::json summary = {{"holds", result.holds()},
                                      {"problems", result.problems},
                                      {"tensors", residuals_as_json(result.residuals)}};
      answer_json(summary);
      return;
    }
    write_out(coloured(result.holds() ? "the certificate holds" : "the certificate does not hold",
                       result.holds() ? Colour::green : Colour::red) +
              "\n");
    for (const auto& problem : result.problems) answer("  {}\n", problem);
    if (result.holds()) print_residuals(result.residuals, 5);
  });
}

}  // namespace regauge::cli
