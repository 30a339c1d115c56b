#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lab_verb.h"
#include "regauge/arch/parameter_source.h"
#include "regauge/base/error.h"
#include "regauge/lab/sample.h"

namespace regauge::cli {
namespace {

// The parameters of a model as those of an architecture that it may only hold implicitly (untied,
// with zero biases).
Parameters<float> read_as(const Model& model, const Architecture& architecture) {
  const ParameterSource source(model, architecture);
  Parameters<float> parameters;
  for (const auto& spec : parameter_specs(architecture)) {
    parameters[spec.name] = source.read<float>(spec.name);
  }
  return parameters;
}

}  // namespace

void add_lab(CLI::App& app, char**, int& exit_code) {
  CLI::App* lab = app.add_subcommand("lab", "Run, train and measure models on libtorch");
  lab->require_subcommand(1);
  add_eval(*lab, exit_code);
  add_forward(*lab, exit_code);
  add_train(*lab, exit_code);
  add_sweep(*lab, exit_code);
  add_nullity(*lab, exit_code);
  add_barrier(app, exit_code);
}

void apply_settings(const std::vector<std::string>& settings, nlohmann::json& object) {
  for (const auto& setting : settings) {
    const auto equals = setting.find('=');
    if (equals == std::string::npos) {
      throw UsageError(fmt::format("--set {}: expected KEY=VALUE", setting));
    }
    const std::string text = setting.substr(equals + 1);
    const auto value = nlohmann::json::parse(text, nullptr, false);
    object[setting.substr(0, equals)] = value.is_discarded() ? nlohmann::json(text) : value;
  }
}

void declare_threads(CLI::App& verb, int& threads) {
  verb.add_option("--threads", threads, "threads of libtorch (default: one per core)")
      ->check(CLI::Range(0, 1024));
}

CLI::Option* DataOptions::declare(CLI::App& verb) {
  CLI::Option* data =
      verb.add_option("--data", spec,
                      "KIND:PATH: bytes:FILE, tokens:FILE, text:FILE (with --tokenizer), idx:DIR "
                      "(MNIST's format), cifar:DIR, clinc:DIR, csv:FILE, wav:DIR; or self: "
                      "sequences that the model "
                      "writes itself");
  verb.add_option("--tokenizer", tokenizer,
                  "of text: llama2.c's tokenizer .bin, or a .vocab with one piece per line");
  verb.add_option("--split", split,
                  fmt::format("all, train or test (default: {})",
                              split.empty() ? "test of a labelled data set, all of a text" : split))
      ->check(CLI::IsMember({"all", "train", "test"}));
  verb.add_option("--length", length, "positions of a window of text (default: the model's)")
      ->check(whole_number(0));
  verb.add_option("--sequences", sequences, "that each model writes for `self`")
      ->check(whole_number(1))
      ->capture_default_str();
  return data;
}

std::unique_ptr<lab::Data> DataOptions::open(const Architecture& architecture,
                                             const std::vector<const Model*>& models,
                                             Progress& progress) const {
  if (spec == "self") {
    std::vector<Parameters<float>> parameters;
    for (const Model* model : models) parameters.push_back(read_as(*model, architecture));
    std::vector<const Parameters<float>*> writers;
    for (const auto& writer : parameters) writers.push_back(&writer);
    const auto all = sequences * static_cast<std::int64_t>(models.size());
    return lab::sample_data(architecture, writers, all, length, 1, progress);
  }
  const bool labelled = architecture.output == Output::classes;
  const lab::Split part = split == "train"                                 ? lab::Split::train
                          : split == "test" || (split.empty() && labelled) ? lab::Split::test
                                                                           : lab::Split::all;
  return lab::open_data(spec, architecture, part, length, tokenizer);
}

}  // namespace regauge::cli
