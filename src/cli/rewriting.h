#pragma once

#include <optional>
#include <string>

#include "dividing.h"
#include "regauge/action/rewrite.h"
#include "verb.h"

namespace regauge::cli {

std::string lowercase(std::string text);

// What act, fold and convert share: where the result goes and how.
struct RewriteOptions {
  std::string model;
  std::string output;
  bool untie = false;
  bool dry_run = false;
  bool json = false;
  std::string max_memory;
  int jobs = 1;
  std::string dtype;

  std::string save_element;
  std::optional<Dividing> dividing;  // of verbs whose work can be divided

  void declare(CLI::App& verb, bool may_untie, const std::string& name = "MODEL");
  void declare_save_element(CLI::App& verb);
  // The source's architecture, untied if that was asked for.
  Architecture target_architecture(const Model& model) const;
  // Throws UsageError for what can be refused before any work, such as too little memory. `element`
  // need only have the size of the one that will act.
  void check(const ParameterSource& source, const Symmetry& symmetry, const Element& element,
             Rewrite::Target target) const;
  // Writes the model moved by the element (with --dry-run prints the plan), saves the element where
  // that was asked for, and prints a summary.
  void carry_out(const ParameterSource& source, const Symmetry& symmetry, const Element& element,
                 Rewrite::Target target) const;

 private:
  std::optional<DType> target_dtype() const;
  void write(const Rewrite& rewrite, Progress& progress) const;
  void check(const Rewrite& rewrite) const;
  // As many of the jobs as --max-memory has room for, at least one.
  int jobs_within_memory(const Rewrite& rewrite) const;
  void summarise(const Rewrite& rewrite) const;
};

}  // namespace regauge::cli
