#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experiment.h"
#include "record.h"

namespace regauge::connect {

using Cell = std::map<std::string, std::string>;
using Seeds = std::array<std::int64_t, 2>;

// One method on one cell and scope, over pairs of models.
struct Field {
  std::vector<const Record*> records;  // by seeds
  double mean = 0;                     // of the barriers; NaN without records
  double spread = 0;                   // their standard deviation (n - 1); NaN below two
  double error = 0;     // of the mean, from the evaluation sample alone, which the pairs share: the
                        // mean of their errors; NaN if not known
  double ratio = 0;     // mean / naive's mean, over the pairs that have both; NaN if there is none
  double accuracy = 0;  // mean of the accuracy barriers
  double area = 0;      // mean of the areas under the curve of the excess
  double middle = 0;    // mean loss of the point nearest to t = 1/2: of the averaged weights
  std::int64_t missing = 0;  // pairs of this experiment and scope that are not here

  std::int64_t n() const { return static_cast<std::int64_t>(records.size()); }
};

struct Row {
  Cell cell;
  std::string scope;
  std::vector<Field> fields;  // by the experiment's methods
  double ends = 0;            // mean loss of the models themselves; NaN without records
  double ensemble = 0;        // mean loss of averaged predictions; NaN if it was not measured
};

// Rows are cells x scopes, scopes outside, of what was measured or planned. The cells are the grid
// of all values that were seen if all have the same keys and the grid has at most 1000 cells,
// otherwise those that were seen.
struct ExperimentTable {
  std::string name;
  std::vector<std::string> methods, scopes;
  std::vector<Cell> cells;
  std::vector<Row> rows;
  std::int64_t records = 0;  // 0 of what was only planned
  std::int64_t missing = 0;  // measurements of the table that were not run

  const Row& row(const Cell& cell, const std::string& scope) const;
};

struct Summary {
  std::vector<ExperimentTable> experiments;  // by name
  std::int64_t records = 0, models = 0, pairs = 0, missing = 0;
  std::map<std::string, std::int64_t> makers;  // records by "VERSION COMMIT"
};

// naive, stage one, orthogonal, two_stage, weights, activations, learned, then the others by name.
bool method_before(const std::string& left, const std::string& right);
// attention:0, attention, block:0, all, then the others by name.
bool scope_before(const std::string& left, const std::string& right);
// Numbers by size before words by alphabet: 64, 128, learned, rotary.
bool value_before(const std::string& left, const std::string& right);

// Points into `records`, which must outlive it. What `plans` have and `records` have not is
// missing; without plans, what the records leave open of their own grid.
Summary summarise(const std::vector<Record>& records, const std::vector<Experiment>& plans = {});
nlohmann::json to_json(const Summary& summary);

}  // namespace regauge::connect
