#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

#include "regauge/align/align.h"
#include "regauge/arch/parameter_source.h"

namespace regauge::cli {

// Two models, read as one architecture, and how to align them.
struct AlignTask {
  AlignMethod method;
  const Symmetry& symmetry;
  const ParameterSource& a;
  const ParameterSource& b;
  const AlignOptions& options;
  Progress& progress;
};
// What learned keeps until the output is written.
inline std::string learning_state(const std::string& output) {
  return output + ".learning.safetensors";
}

// What --help calls the options of those methods.
inline constexpr const char* kOfRunningModels = "Options of activations and learned";

using LabAligner = std::function<Alignment(const AlignTask&)>;

// The methods that run models: in regauge-lab their options and their work, in regauge the way
// there; `arguments` is main's argv.
LabAligner declare_lab_align(CLI::App& verb, char** arguments);

}  // namespace regauge::cli
