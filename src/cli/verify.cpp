

#include "print.h"
#include "regauge/equivalence/certificate.h"
#include "residual_table.h"
#include "verb.h"

namespace regauge::cli {

void add_verify(CLI::App& app, int& exit_code) {
  struct Options {
    std::string a, b, certificate;
    bool json = false;
    int jobs = 1;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "verify", "Check a certificate that two models are the same function: apply it and compare");
  verb->add_option("A", options->a, "folder or file")->required();
  verb->add_option("B", options->b, "folder or file")->required();
  verb->add_option("CERT", options->certificate,
                   "made by `regauge diff --certificate`, or a statement of --in-toto beside it")
      ->required();
  declare_jobs(*verb, options->jobs);
  verb->add_flag("--json", options->json, "every tensor's residual as JSON");
  verb->footer("Exit: 0 the certificate holds, 1 it does not.");
  verb->callback([options, &exit_code] {
    const Model a = Model::open(options->a);
    const Model b = Model::open(options->b);
    const auto progress = make_progress_of(options->jobs);
    const Verification result = verify(a, b, options->certificate, *progress);
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
