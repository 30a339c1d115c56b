#pragma once

#include "connect/record.h"

namespace regauge::testing {

// A record that is whole: a line of three points whose largest excess is `barrier`.
inline connect::Record record(const std::string& experiment, const connect::Record& like,
                              double barrier) {
  connect::Record result = like;
  result.experiment = experiment;
  result.barrier = barrier;
  result.barrier_error = barrier / 10;
  result.barrier_at = 0.5;
  result.examples = result.targets = 100;
  result.points = {{0, 1, 0.1, 0.5, 0, 0},
                   {0.5, 1 + barrier, 0.1, 0.25, barrier, barrier / 10},
                   {1, 1, 0.1, 0.5, 0, 0}};
  result.architecture = result.training = result.align = nlohmann::json::object();
  result.made_by = {{"regauge", "0.1.0"}, {"commit", "abc"}};
  return result;
}

inline connect::Record record(std::map<std::string, std::string> cell, const std::string& scope,
                              std::array<std::int64_t, 2> seeds, const std::string& method,
                              double barrier) {
  connect::Record like;
  like.cell = std::move(cell);
  like.scope = scope;
  like.seeds = seeds;
  like.method = method;
  return record("study", like, barrier);
}

}  // namespace regauge::testing
