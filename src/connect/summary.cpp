#include "summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "fields.h"
#include "regauge/base/error.h"

namespace regauge::connect {
namespace {

constexpr std::size_t kMostCells = 1000;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool cell_before(const Cell& left, const Cell& right) {
  return std::lexicographical_compare(
      left.begin(), left.end(), right.begin(), right.end(), [](const auto& l, const auto& r) {
        return l.first != r.first ? l.first < r.first : value_before(l.second, r.second);
      });
}

// The grid of all values of each key; nothing if the keys differ between cells or it is too large.
std::vector<Cell> grid_of(const std::vector<Cell>& seen) {
  std::map<std::string, std::set<std::string>> values;
  for (const Cell& cell : seen) {
    if (cell.size() != seen.front().size()) return {};
    for (const auto& [key, value] : cell) values[key].insert(value);
  }
  if (values.size() != seen.front().size()) return {};
  std::vector<Cell> grid = {{}};
  for (const auto& [key, choices] : values) {
    if (grid.size() * choices.size() > kMostCells) return {};
    std::vector<Cell> wider;
    for (const Cell& cell : grid) {
      for (const std::string& choice : choices) {
        wider.push_back(cell);
        wider.back()[key] = choice;
      }
    }
    grid = std::move(wider);
  }
  return grid;
}

std::vector<Cell> cells_of(const std::vector<const Record*>& records) {
  std::set<Cell> distinct;
  for (const Record* record : records) distinct.insert(record->cell);
  std::vector<Cell> seen(distinct.begin(), distinct.end());
  std::vector<Cell> cells = grid_of(seen);
  if (cells.empty()) cells = std::move(seen);
  std::sort(cells.begin(), cells.end(), cell_before);
  return cells;
}

template <class Before>
std::vector<std::string> names_of(const std::vector<const Record*>& records,
                                  std::string Record::*name, Before before) {
  std::set<std::string> distinct;
  for (const Record* record : records) distinct.insert(record->*name);
  std::vector<std::string> names(distinct.begin(), distinct.end());
  std::sort(names.begin(), names.end(), before);
  return names;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? kNan : sum / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  if (values.size() < 2) return kNan;
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

const Point& middle_of(const std::vector<Point>& points) {
  return *std::min_element(points.begin(), points.end(), [](const Point& l, const Point& r) {
    return std::abs(l.t - 0.5) < std::abs(r.t - 0.5);
  });
}

// What does not depend on the method: every pair counts once.
void fill_ends(Row& row) {
  std::map<Seeds, double> ends, ensembles;
  for (const Field& field : row.fields) {
    for (const Record* record : field.records) {
      ends[record->seeds] = (record->points.front().loss + record->points.back().loss) / 2;
      if (std::isfinite(record->ensemble_loss)) ensembles[record->seeds] = record->ensemble_loss;
    }
  }
  const auto mean = [](const std::map<Seeds, double>& by_pair) {
    std::vector<double> values;
    for (const auto& [seeds, value] : by_pair) values.push_back(value);
    return mean_of(values);
  };
  row.ends = mean(ends);
  row.ensemble = mean(ensembles);
}

void fill(Field& field, std::size_t pairs) {
  std::sort(field.records.begin(), field.records.end(),
            [](const Record* l, const Record* r) { return l->seeds < r->seeds; });
  std::vector<double> barriers, errors, accuracies, areas, middles;
  for (const Record* record : field.records) {
    barriers.push_back(record->barrier);
    errors.push_back(record->barrier_error);
    accuracies.push_back(accuracy_barrier(record->points));
    areas.push_back(excess_area(record->points));
    middles.push_back(middle_of(record->points).loss);
  }
  field.accuracy = mean_of(accuracies);
  field.area = mean_of(areas);
  field.middle = mean_of(middles);
  field.mean = mean_of(barriers);
  field.spread = deviation_of(barriers);
  field.error = mean_of(errors);
  field.missing = static_cast<std::int64_t>(pairs - field.records.size());
}

double ratio_of(const Field& field, const Field& naive) {
  double sum = 0, of_naive = 0;
  for (const Record* record : field.records) {
    for (const Record* other : naive.records) {
      if (other->seeds != record->seeds) continue;
      sum += record->barrier;
      of_naive += other->barrier;
    }
  }
  return of_naive > 0 ? sum / of_naive : kNan;
}

// What a plan says of its measurements, as records without numbers.
std::vector<Record> planned(const std::vector<Experiment>& plans) {
  std::vector<Record> records;
  for (const Experiment& plan : plans) {
    for (const auto& job : plan.measurements) {
      Record& record = records.emplace_back();
      record.experiment = plan.name;
      record.cell = job.about.at("cell").get<Cell>();
      record.scope = job.about.at("scope");
      record.seeds = job.about.at("seeds").get<Seeds>();
      record.method = job.about.at("method");
    }
  }
  return records;
}

// The records of one experiment, and all that it has room for: those and what was planned.
struct Part {
  std::vector<const Record*> records, room;
};

ExperimentTable experiment_of(const std::string& name, const Part& part) {
  ExperimentTable experiment;
  experiment.name = name;
  experiment.records = static_cast<std::int64_t>(part.records.size());
  experiment.methods = names_of(part.room, &Record::method, method_before);
  experiment.scopes = names_of(part.room, &Record::scope, scope_before);
  experiment.cells = cells_of(part.room);
  std::map<std::string, std::set<Seeds>> pairs;
  std::map<std::tuple<Cell, std::string, std::string>, std::vector<const Record*>> found;
  for (const Record* record : part.room) pairs[record->scope].insert(record->seeds);
  for (const Record* record : part.records) {
    found[{record->cell, record->scope, record->method}].push_back(record);
  }
  for (const std::string& scope : experiment.scopes) {
    for (const Cell& cell : experiment.cells) {
      Row row = {cell, scope, {}, kNan, kNan};
      const Field* naive = nullptr;
      for (const std::string& method : experiment.methods) {
        Field& field = row.fields.emplace_back();
        field.records = found[{cell, scope, method}];
        fill(field, pairs[scope].size());
        experiment.missing += field.missing;
      }
      for (std::size_t i = 0; i < row.fields.size(); ++i) {
        if (experiment.methods[i] == "naive") naive = &row.fields[i];
      }
      for (Field& field : row.fields) field.ratio = naive ? ratio_of(field, *naive) : kNan;
      fill_ends(row);
      experiment.rows.push_back(std::move(row));
    }
  }
  return experiment;
}

nlohmann::json to_json(const Row& row, const std::vector<std::string>& methods) {
  nlohmann::json fields = nlohmann::json::object();
  for (std::size_t i = 0; i < methods.size(); ++i) {
    const Field& field = row.fields[i];
    fields[methods[i]] = {{"mean", number_or_null(field.mean)},
                          {"spread", number_or_null(field.spread)},
                          {"error", number_or_null(field.error)},
                          {"ratio", number_or_null(field.ratio)},
                          {"accuracy_barrier", number_or_null(field.accuracy)},
                          {"area", number_or_null(field.area)},
                          {"middle", number_or_null(field.middle)},
                          {"n", field.n()},
                          {"not_run", field.missing}};
  }
  return {{"cell", row.cell},
          {"scope", row.scope},
          {"methods", fields},
          {"ends", number_or_null(row.ends)},
          {"ensemble", number_or_null(row.ensemble)}};
}

}  // namespace

const Row& ExperimentTable::row(const Cell& cell, const std::string& scope) const {
  for (const Row& candidate : rows) {
    if (candidate.cell == cell && candidate.scope == scope) return candidate;
  }
  throw UsageError("[summary] no such row in the experiment " + name);
}

Summary summarise(const std::vector<Record>& records, const std::vector<Experiment>& plans) {
  std::map<std::string, Part> experiments;
  std::set<std::tuple<std::string, Cell, std::string, Seeds>> pairs;
  std::set<std::tuple<std::string, Cell, std::string, std::int64_t>> models;
  Summary summary;
  summary.records = static_cast<std::int64_t>(records.size());
  for (const Record& record : records) {
    experiments[record.experiment].records.push_back(&record);
    experiments[record.experiment].room.push_back(&record);
    pairs.emplace(record.experiment, record.cell, record.scope, record.seeds);
    for (const std::int64_t seed : record.seeds) {
      models.emplace(record.experiment, record.cell, record.scope, seed);
    }
    ++summary
          .makers[record.made_by.value("regauge", "") + " " + record.made_by.value("commit", "")];
  }
  summary.pairs = static_cast<std::int64_t>(pairs.size());
  summary.models = static_cast<std::int64_t>(models.size());
  const std::vector<Record> plan = planned(plans);
  for (const Record& record : plan) experiments[record.experiment].room.push_back(&record);
  for (const auto& [name, of_it] : experiments) {
    summary.experiments.push_back(experiment_of(name, of_it));
    summary.missing += summary.experiments.back().missing;
  }
  return summary;
}

nlohmann::json to_json(const Summary& summary) {
  nlohmann::json experiments = nlohmann::json::array();
  for (const ExperimentTable& experiment : summary.experiments) {
    nlohmann::json rows = nlohmann::json::array();
    for (const Row& row : experiment.rows) rows.push_back(to_json(row, experiment.methods));
    experiments.push_back({{"name", experiment.name},
                           {"methods", experiment.methods},
                           {"scopes", experiment.scopes},
                           {"rows", rows},
                           {"not_run", experiment.missing}});
  }
  return {{"experiments", experiments}, {"records", summary.records}, {"models", summary.models},
          {"pairs", summary.pairs},     {"not_run", summary.missing}, {"made_by", summary.makers}};
}

}  // namespace regauge::connect
