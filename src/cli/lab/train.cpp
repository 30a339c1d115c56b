#include "regauge/lab/train.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>

#include "lab_verb.h"
#include "print.h"
#include "regauge/base/error.h"

namespace regauge::cli {
namespace {

using Json = nlohmann::json;

Json read_config(const std::string& path) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) {
    throw FileError(fmt::format("{}: there is no such file", path));
  }
  Json config = Json::parse(file, nullptr, false);
  const auto has = [&](const char* key) { return config.value(key, Json()).is_object(); };
  if (!config.is_object() || !has("architecture") || !has("training")) {
    throw UsageError(fmt::format(
        "{}: expected JSON with two objects, \"architecture\" (a config.json of the family "
        "regauge) and \"training\"",
        path));
  }
  return config;
}

}  // namespace

void add_train(CLI::App& lab, int& exit_code) {
  struct Options {
    std::string config, output, from, reinit;
    std::vector<std::string> settings;
    int threads = 0;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = lab.add_subcommand("train", "Train a model of the family regauge");
  verb->add_option("CONFIG", options->config,
                   "JSON: {\"architecture\": {...}, \"training\": {\"data\": \"KIND:PATH\", ...}}; "
                   "docs/lab.md has the settings")
      ->required();
  verb->add_option("-o,--output", options->output,
                   "the model's folder; the same command goes on with an interrupted training")
      ->required();
  verb->add_option("--from", options->from, "begin with this model, of the same architecture");
  verb->add_option(
      "--reinit", options->reinit,
      "all, attention or block, :0 or :0-3 for some layers only: this part of the model "
      "of --from starts anew, and nothing else is trained");
  verb->add_option("--set", options->settings, "KEY=VALUE: a training setting, over the file's");
  verb->add_flag("--json", options->json, "the result as JSON");
  declare_threads(*verb, options->threads);
  verb->callback([options, &exit_code] {
    lab::set_threads(options->threads);
    Json config = read_config(options->config);
    apply_settings(options->settings, config["training"]);
    if (!options->from.empty()) config["training"]["from"] = options->from;
    if (!options->reinit.empty()) config["training"]["reinit"] = options->reinit;
    const Architecture architecture = architecture_from_json(config["architecture"]);
    const lab::Training training = lab::training_from_json(config["training"]);
    const auto progress = make_progress();
    lab::Score score;
    try {
      score = lab::train(architecture, training, lab::initial_parameters(architecture, training),
                         options->output, *progress);
    } catch (const Cancelled&) {
      say("regauge: interrupted; the same command goes on from here\n");
      exit_code = 130;
      return;
    }
    if (options->json) {
      answer_json(Json{{"model", options->output},
                       {"loss", score.loss},
                       {"loss_error", score.loss_error},
                       {"accuracy", score.accuracy}});
    } else {
      answer("{}: {} parameters, test loss {:.4f} ± {:.4f} nats, accuracy {:.2f} %\n",
             options->output, parameter_count(architecture), score.loss, score.loss_error,
             100 * score.accuracy);
    }
    exit_code = 0;
  });
}

}  // namespace regauge::cli
