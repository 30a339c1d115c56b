#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "align_settings.h"

namespace regauge::connect {

// A study as a file says it: which models are trained, which pairs of them are aligned how, and
// measured. docs/study.md has the file's keys.
//
// Every cell is one choice along each axis of "vary". For each cell and each part of a model in
// "scopes", models 1, 2, ... are trained that differ in that part alone: they start from one base
// model, whose part starts anew, each from its own seed; for the scope "all" nothing is shared. All
// pairs i < j of them are measured by every method.
struct Experiment {
  struct Model {
    std::string path;  // in the study's folder
    std::string from;  // the base model's; empty: none
    nlohmann::json architecture, training;
  };
  struct Grid {
    std::int64_t points = 0, examples = 0;
  };
  struct Measurement {
    std::string record;    // the path of its record in the study's folder
    std::string a, b;      // the paths of the two models
    nlohmann::json about;  // what the record says of itself: cell, scope, seeds, method, ...
    std::optional<AlignSettings> align;  // nothing: the models as they are
    Grid line;
    std::optional<Grid> plane;                  // with so many points on each side
    std::optional<std::int64_t> rank_examples;  // for the rank of the head permutation
  };

  std::string name;
  std::vector<Model> models;  // bases before those that start from them
  std::vector<Measurement> measurements;
};

// Throws UsageError with all that is wrong with it, as far as it can be known without the data.
Experiment read_experiment(const std::filesystem::path& file);

}  // namespace regauge::connect
