#pragma once

#include <string>

#include "regauge/arch/layout.h"
#include "regauge/lab/data.h"
#include "verb.h"

namespace regauge::cli {

// The verbs behind `regauge lab`.
void add_eval(CLI::App& lab, int& exit_code);
void add_forward(CLI::App& lab, int& exit_code);
void add_train(CLI::App& lab, int& exit_code);
void add_nullity(CLI::App& lab, int& exit_code);

void declare_threads(CLI::App& verb, int& threads);

// Which examples, in the words that every verb uses.
struct DataOptions {
  std::string spec, tokenizer, split;
  std::int64_t length = 0;

  void declare(CLI::App& verb);
  std::unique_ptr<lab::Data> open(const Model& model, Progress& progress) const;
};

}  // namespace regauge::cli
