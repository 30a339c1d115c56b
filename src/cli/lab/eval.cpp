#include <nlohmann/json.hpp>

#include <cmath>

#include "lab_verb.h"
#include "print.h"
#include "regauge/lab/objective.h"
#include "regauge/lab/train.h"

namespace regauge::cli {

void add_eval(CLI::App& lab, int& exit_code) {
  struct Options {
    std::string model;
    DataOptions data;
    std::int64_t examples = 0;
    int threads = 0;
    bool in_double = false, json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = lab.add_subcommand("eval", "Loss, perplexity and accuracy of a model on data");
  verb->add_option("MODEL", options->model, "folder or file")->required();
  options->data.declare(*verb)->required();
  verb->add_option("--examples", options->examples, "at most so many, spread evenly (default: all)")
      ->check(CLI::NonNegativeNumber);
  verb->add_flag("--double", options->in_double, "in double precision");
  verb->add_flag("--json", options->json, "the result as JSON");
  declare_threads(*verb, options->threads);
  verb->callback([options, &exit_code] {
    lab::set_threads(options->threads);
    const Model model = Model::open(options->model);
    const auto progress = make_progress();
    const auto data = options->data.open(model.architecture, {&model}, *progress);
    const auto run = [&]<class Scalar>(Scalar) {
      return lab::evaluate(model.architecture, read_parameters<Scalar>(model), *data,
                           options->examples, *progress);
    };
    const lab::Score score = options->in_double ? run(double{}) : run(float{});
    if (options->json) {
      const nlohmann::json result = {{"model", options->model},
                                     {"data", options->data.spec},
                                     {"loss", score.loss},
                                     {"loss_error", score.loss_error},
                                     {"perplexity", std::exp(score.loss)},
                                     {"accuracy", score.accuracy},
                                     {"examples", score.examples},
                                     {"targets", score.targets}};
      answer_json(result);
    } else {
      answer("loss        {:.4f} ± {:.4f} nats\nperplexity  {:.3f}\naccuracy    {:.2f} %\n",
             score.loss, score.loss_error, std::exp(score.loss), 100 * score.accuracy);
      answer("on          {} targets in {} examples\n", score.targets, score.examples);
    }
    exit_code = 0;
  });
}

}  // namespace regauge::cli
