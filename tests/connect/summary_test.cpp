// Means, spreads, shares of naive and what is missing, against numbers made by hand.
#include "connect/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "records.h"

namespace regauge::connect {
namespace {

using testing::record;

const Cell kRotary = {{"positions", "rotary"}};
const Cell kNone = {{"positions", "none"}};

TEST(Summary, MeansSpreadsAndShares) {
  const std::vector<Record> records = {
      record(kRotary, "all", {1, 2}, "naive", 1.0),
      record(kRotary, "all", {3, 4}, "naive", 2.0),
      record(kRotary, "all", {5, 6}, "naive", 3.0),
      record(kRotary, "all", {1, 2}, "weights", 0.5),
      record(kRotary, "all", {3, 4}, "weights", 0.7),
  };
  const Summary summary = summarise(records);
  ASSERT_EQ(summary.experiments.size(), 1U);
  const ExperimentTable& experiment = summary.experiments.front();
  EXPECT_EQ(experiment.methods, (std::vector<std::string>{"naive", "weights"}));
  ASSERT_EQ(experiment.rows.size(), 1U);
  const Field& naive = experiment.rows[0].fields[0];
  const Field& weights = experiment.rows[0].fields[1];
  EXPECT_DOUBLE_EQ(naive.mean, 2);
  EXPECT_DOUBLE_EQ(naive.spread, 1);
  EXPECT_DOUBLE_EQ(naive.ratio, 1);
  EXPECT_NEAR(naive.error, (0.1 + 0.2 + 0.3) / 3, 1e-12);  // the pairs share their examples
  EXPECT_DOUBLE_EQ(weights.mean, 0.6);
  EXPECT_NEAR(weights.spread, 0.1 * std::sqrt(2), 1e-12);
  EXPECT_NEAR(weights.ratio, 1.2 / 3, 1e-12);  // of naive over the same two pairs
  EXPECT_EQ(weights.n(), 2);
  EXPECT_EQ(weights.missing, 1);
  EXPECT_EQ(summary.missing, 1);
  EXPECT_EQ(summary.pairs, 3);
  EXPECT_EQ(summary.models, 6);
  EXPECT_EQ(summary.records, 5);
}

TEST(Summary, OnePairHasNoSpreadAndNoNaiveNoShare) {
  const std::vector<Record> records = {record(kRotary, "all", {1, 2}, "weights", 0.5)};
  const Summary summary = summarise(records);
  const Field& field = summary.experiments[0].rows[0].fields[0];
  EXPECT_TRUE(std::isnan(field.spread));
  EXPECT_TRUE(std::isnan(field.ratio));
  const auto written = to_json(summary);
  const auto& shown = written["experiments"][0]["rows"][0]["methods"]["weights"];
  EXPECT_EQ(shown["mean"], 0.5);
  EXPECT_TRUE(shown["spread"].is_null());
  EXPECT_TRUE(shown["ratio"].is_null());
}

TEST(Summary, AnEnsembleCountsOncePerPair) {
  std::vector<Record> records = {record(kRotary, "all", {1, 2}, "naive", 1),
                                 record(kRotary, "all", {1, 2}, "weights", 0.5),
                                 record(kRotary, "all", {1, 3}, "naive", 1)};
  records[0].ensemble_loss = records[1].ensemble_loss = 0.7;
  records[2].ensemble_loss = 0.9;
  const Summary summary = summarise(records);
  const Row& row = summary.experiments[0].rows[0];
  EXPECT_NEAR(row.ensemble, 0.8, 1e-12);
  EXPECT_NEAR(row.ends, 1, 1e-12);
  EXPECT_NEAR(row.fields[1].middle, 1.5, 1e-12);
  EXPECT_NEAR(row.fields[1].accuracy, 0.25, 1e-12);
  EXPECT_NEAR(row.fields[1].area, 0.25, 1e-12);
}

TEST(Summary, CellsAreTheGridOfWhatWasSeen) {
  const std::vector<Record> records = {
      record({{"data", "a"}, {"width", "64"}}, "all", {1, 2}, "naive", 1),
      record({{"data", "b"}, {"width", "128"}}, "all", {1, 2}, "naive", 1),
  };
  const Summary summary = summarise(records);
  const ExperimentTable& experiment = summary.experiments.front();
  EXPECT_EQ(experiment.cells.size(), 4U);
  EXPECT_EQ(experiment.missing, 2);
  EXPECT_EQ(experiment.cells.front().at("width"), "64");  // before 128
  EXPECT_EQ(experiment.row({{"data", "b"}, {"width", "64"}}, "all").fields[0].n(), 0);
}

// A plan of one cell, scope and pair by two methods; another one of which nothing is done.
TEST(Summary, WhatWasPlannedAndIsNotThereIsMissing) {
  const std::vector<Record> records = {record(kRotary, "all", {1, 2}, "naive", 1)};
  Experiment study, other;
  study.name = "study";
  other.name = "other";
  const auto plan = [](Experiment& experiment, const Cell& cell, const char* method) {
    experiment.measurements.emplace_back().about = {
        {"cell", cell}, {"scope", "all"}, {"seeds", {1, 2}}, {"method", method}};
  };
  for (const Cell& cell : {kRotary, kNone}) {
    for (const char* method : {"naive", "weights"}) plan(study, cell, method);
  }
  plan(other, {}, "naive");
  EXPECT_EQ(summarise(records).missing, 0);
  const Summary summary = summarise(records, {study, other});
  ASSERT_EQ(summary.experiments.size(), 2U);
  EXPECT_EQ(summary.experiments[0].missing, 1);
  EXPECT_EQ(summary.experiments[1].missing, 3);
  EXPECT_EQ(summary.experiments[1].row(kRotary, "all").fields[0].n(), 1);
  EXPECT_EQ(summary.experiments[1].row(kNone, "all").fields[1].missing, 1);
  EXPECT_EQ(summary.records, 1);
  EXPECT_EQ(summary.models, 2);
}

TEST(Summary, CellsOfOtherKeysAreNoGrid) {
  const std::vector<Record> records = {record({{"data", "a"}}, "all", {1, 2}, "naive", 1),
                                       record({{"width", "64"}}, "all", {1, 2}, "naive", 1)};
  EXPECT_EQ(summarise(records).experiments.front().cells.size(), 2U);
}

TEST(Summary, AGridThatIsTooLargeIsNotMade) {
  std::vector<Record> records;
  for (int i = 0; i < 20; ++i) {
    Cell cell;
    for (const char* key : {"a", "b", "c", "d", "e", "f"}) cell[key] = std::to_string(i);
    records.push_back(record(cell, "all", {1, 2}, "naive", 1));
  }
  EXPECT_EQ(summarise(records).experiments.front().cells.size(), 20U);
}

TEST(Summary, Order) {
  std::vector<std::string> methods = {"zeta",  "learned",   "two_stage", "activations", "alpha",
                                      "naive", "stage one", "weights",   "orthogonal"};
  std::sort(methods.begin(), methods.end(), method_before);
  EXPECT_EQ(methods,
            (std::vector<std::string>{"naive", "stage one", "orthogonal", "two_stage", "weights",
                                      "activations", "learned", "alpha", "zeta"}));
  std::vector<std::string> scopes = {"all", "block:1", "attention", "block:0", "attention:0"};
  std::sort(scopes.begin(), scopes.end(), scope_before);
  EXPECT_EQ(scopes,
            (std::vector<std::string>{"attention:0", "attention", "block:0", "all", "block:1"}));
  std::vector<std::string> values = {"rotary", "512", "64", "", "1e3", "128"};
  std::sort(values.begin(), values.end(), value_before);
  EXPECT_EQ(values, (std::vector<std::string>{"64", "128", "512", "1e3", "", "rotary"}));
}

TEST(Summary, PairsAreThoseOfAScope) {
  const std::vector<Record> records = {record(kRotary, "all", {1, 2}, "naive", 1),
                                       record(kNone, "all", {1, 2}, "naive", 1),
                                       record(kRotary, "attention", {7, 8}, "naive", 1),
                                       record(kNone, "attention", {7, 8}, "naive", 1)};
  EXPECT_EQ(summarise(records).missing, 0);
}

}  // namespace
}  // namespace regauge::connect
