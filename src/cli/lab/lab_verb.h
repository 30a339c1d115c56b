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
void add_sweep(CLI::App& lab, int& exit_code);
void add_nullity(CLI::App& lab, int& exit_code);
// A verb of its own.
void add_barrier(CLI::App& app, int& exit_code);

// Each KEY=VALUE, the value as JSON, or as text if it is none.
void apply_settings(const std::vector<std::string>& settings, nlohmann::json& object);

void declare_threads(CLI::App& verb, int& threads);

// Which examples, in the words that every verb uses.
struct DataOptions {
  std::string spec, tokenizer, split;
  std::int64_t length = 0;
  std::int64_t sequences = 64;  // of `self`, by each model

  // Returns --data, which the caller may require.
  CLI::Option* declare(CLI::App& verb);
  // `models` have written `self` together, if that is asked for; all of one architecture.
  std::unique_ptr<lab::Data> open(const Architecture& architecture,
                                  const std::vector<const Model*>& models,
                                  Progress& progress) const;
};

}  // namespace regauge::cli
