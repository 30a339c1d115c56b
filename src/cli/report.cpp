#include "connect/report.h"

#include "io/partial.h"
#include "print.h"
#include "regauge/base/error.h"
#include "verb.h"

namespace regauge::cli {

void add_report(CLI::App& app, int& exit_code) {
  struct Options {
    std::string folder, output;
    std::vector<std::string> experiments;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "report", "Write a study of barriers as one page: tables, curves, loss planes");
  verb->add_option("DIR", options->folder, "with records/*.jsonl, or the folder of the *.jsonl")
      ->required();
  verb->add_option("-o,--output", options->output, "the page, a new file (.html)")
      ->check(CLI::NonexistentPath)
      ->type_name("PATH");
  verb->add_option("--experiment", options->experiments,
                   "a file of `lab sweep` whose plan counts: what it has and the records have not "
                   "is shown as not run; may be given more than once")
      ->allow_extra_args(false)
      ->type_name("FILE");
  verb->add_flag("--json", options->json, "the numbers of the tables as JSON");
  verb->footer(
      "Each line of a record file is one measurement: a pair of models and a method.\n"
      "What the records leave open of the grid of cells, scopes, methods and pairs is shown as not "
      "run.");
  verb->callback([options, &exit_code] {
    if (options->output.empty() && !options->json) {
      throw UsageError("[report] nothing to make; give -o PAGE.html, --json, or both");
    }
    const std::vector<connect::Record> records = connect::read_records(options->folder);
    std::vector<connect::Experiment> plans;
    for (const std::string& file : options->experiments) {
      plans.push_back(connect::read_experiment(file));
    }
    const connect::Summary summary = connect::summarise(records, plans);
    if (!options->output.empty()) io::write_new(options->output, connect::report_page(summary));
    if (options->json) {
      answer_json(to_json(summary));
    } else {
      answer("{}: {} measurements of {} models in {} experiments, {} not run\n", options->output,
             summary.records, summary.models, summary.experiments.size(), summary.missing);
    }
    exit_code = 0;
  });
}

}  // namespace regauge::cli
