#include "lab_verb.h"
#include "regauge/lab/sample.h"

namespace regauge::cli {
namespace {

constexpr std::int64_t kSelfSequences = 64;

}  // namespace

void add_lab(CLI::App& app, char**, int& exit_code) {
  CLI::App* lab = app.add_subcommand("lab", "Run, train and measure models on libtorch");
  lab->require_subcommand(1);
  add_eval(*lab, exit_code);
  add_forward(*lab, exit_code);
  add_train(*lab, exit_code);
  add_nullity(*lab, exit_code);
}

void declare_threads(CLI::App& verb, int& threads) {
  verb.add_option("--threads", threads, "threads of libtorch (default: one per core)")
      ->check(CLI::Range(0, 1024));
}

void DataOptions::declare(CLI::App& verb) {
  verb.add_option(
          "--data", spec,
          "KIND:PATH: bytes:FILE, tokens:FILE, text:FILE (with --tokenizer), idx:DIR "
          "(MNIST's format), cifar:DIR, clinc:DIR, wav:DIR; or self: sequences that the model "
          "writes itself")
      ->required();
  verb.add_option("--tokenizer", tokenizer,
                  "of text: llama2.c's tokenizer .bin, or a .vocab with one piece per line");
  verb.add_option("--split", split,
                  "all, train or test (default: test of a labelled data set, all of a text)")
      ->check(CLI::IsMember({"all", "train", "test"}));
  verb.add_option("--length", length, "positions of a window of text (default: the model's)")
      ->check(CLI::NonNegativeNumber);
}

std::unique_ptr<lab::Data> DataOptions::open(const Model& model, Progress& progress) const {
  const Architecture& architecture = model.architecture;
  if (spec == "self") {
    return lab::sample_data(architecture, read_parameters<float>(model), kSelfSequences, length, 1,
                            progress);
  }
  const bool labelled = architecture.output == Output::classes;
  const lab::Split part = split == "train"                                 ? lab::Split::train
                          : split == "test" || (split.empty() && labelled) ? lab::Split::test
                                                                           : lab::Split::all;
  return lab::open_data(spec, architecture, part, length, tokenizer);
}

}  // namespace regauge::cli
