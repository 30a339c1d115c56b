#pragma once

#include <optional>
#include <string>

#include "regauge/action/rewrite.h"
#include "verb.h"

namespace regauge::cli {

// What act, fold and convert share: where the result goes and how.
struct RewriteOptions {
  std::string model;
  std::string output;
  bool untie = false;
  bool dry_run = false;
  bool json = false;
  std::string max_memory;
  std::string dtype;

  void declare(CLI::App& verb, bool may_untie);
  // The source's architecture, untied if that was asked for.
  Architecture target_architecture(const Model& model) const;
  std::optional<DType> target_dtype() const;
  // Runs, or with --dry-run prints, the rewrite; prints a summary.
  void carry_out(const Rewrite& rewrite) const;
};

}  // namespace regauge::cli
