// An experiment's file: which models and measurements follow from it.
#include "connect/experiment.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "equivalence/temporary.h"
#include "regauge/base/error.h"

namespace regauge::connect {
namespace {

using nlohmann::json;

json small() {
  return {{"name", "small"},
          {"architecture",
           {{"width", 8},
            {"layers", 1},
            {"heads", 2},
            {"kv_heads", 2},
            {"qk_width", 4},
            {"v_width", 4},
            {"ffn_width", 8},
            {"vocabulary", 16},
            {"max_positions", 8}}},
          {"training", {{"data", "bytes:text"}, {"steps", 100}}},
          {"vary",
           {{"positions",
             {{"none", {{"architecture", {{"positions", "none"}}}}},
              {"learned", {{"architecture", {{"positions", "learned"}}}}}}},
            {"rate", {{"slow", {{"training", {{"learning_rate", 1e-4}}}}}}}}},
          {"scopes", {{"all", json::object()}, {"attention:0", {{"training", {{"steps", 10}}}}}}},
          {"methods",
           {{"naive", nullptr},
            {"heads", {{"method", "two_stage"}, {"scope", "heads"}}},
            {"ours", {{"method", "weights"}}}}},
          {"plane", {{"methods", {"ours"}}}}};
}

Experiment read(const json& file) {
  const testing::Temporary folder("experiment");
  std::ofstream(folder / "experiment.json") << file.dump();
  return read_experiment(folder / "experiment.json");
}

TEST(Experiment, ModelsAndMeasurementsOfEveryCellAndScope) {
  const Experiment experiment = read(small());
  // Two cells, each with a base, three of the part and three of everything.
  ASSERT_EQ(experiment.models.size(), 2u * (1 + 3 + 3));
  std::set<std::string> made;
  for (const auto& model : experiment.models) {
    EXPECT_TRUE(made.insert(model.path).second) << model.path;
    EXPECT_TRUE(model.from.empty() || made.contains(model.from)) << model.path;
    EXPECT_EQ(model.training.at("learning_rate"), 1e-4);
    const bool part = model.path.find("attention-0") != std::string::npos;
    EXPECT_EQ(model.training.at("steps"), part ? 10 : 100);
    EXPECT_EQ(model.training.value("reinit", ""), part ? "attention:0" : "");
    EXPECT_EQ(model.from.empty(), !part);
  }
  EXPECT_TRUE(made.contains("models/none.slow/base"));
  // Three pairs, three methods, two scopes, two cells.
  ASSERT_EQ(experiment.measurements.size(), 3u * 3 * 2 * 2);
  std::set<std::string> records;
  int planes = 0;
  for (const auto& job : experiment.measurements) {
    EXPECT_TRUE(records.insert(job.record).second) << job.record;
    EXPECT_TRUE(made.contains(job.a) && made.contains(job.b) && job.a != job.b);
    const std::string scope = job.about.at("scope"), method = job.about.at("method");
    EXPECT_EQ(job.align.has_value(), method != "naive");
    if (job.align) {
      const std::string heads = scope == "all" ? "heads" : "heads:0";
      EXPECT_EQ(job.align->options.scope.text(), method == "heads" ? heads : scope);
    }
    planes += job.plane ? 1 : 0;
  }
  EXPECT_EQ(planes, 4);  // the first pair of each cell and scope
}

// What a record says of its alignment is all of it, and reads back as the same.
TEST(Experiment, SettingsAreWrittenWithTheirDefaults) {
  json file = small();
  file["methods"] = {{"compact", {{"method", "two_stage"}, {"compact", true}}},
                     {"weights", {{"method", "weights"}, {"starts", 2}}},
                     {"activations", {{"method", "activations"}}},
                     {"learned", {{"method", "learned"}, {"steps", 7}, {"seed", 5}}}};
  file.erase("plane");
  const Experiment experiment = read(file);
  std::map<std::string, json> written;
  for (const auto& job : experiment.measurements) {
    const json& align = job.about.at("align");
    EXPECT_EQ(to_json(align_settings_from_json(align)), align);
    if (job.about.at("scope") == "all") written[job.about.at("method")] = align;
  }
  const AlignOptions defaults;
  EXPECT_EQ(written["compact"], (json{{"method", "two_stage"},
                                      {"scope", "all"},
                                      {"compact", true},
                                      {"neurons", false},
                                      {"stream", "none"}}));
  EXPECT_EQ(written["weights"], (json{{"method", "weights"},
                                      {"scope", "all"},
                                      {"iterations", defaults.iterations},
                                      {"starts", 2},
                                      {"seed", defaults.seed}}));
  EXPECT_EQ(written["activations"].at("batches"), AlignSettings().batches);
  const json& learned = written["learned"];
  EXPECT_EQ(learned.at("rate"), Learning().rate);
  EXPECT_EQ(learned.at("rematch"), Learning().rematch);
  EXPECT_EQ(learned.at("start"), "activations");
  EXPECT_EQ(learned.at("steps"), 7);
  EXPECT_EQ(learned.at("seed"), 5);
}

TEST(Experiment, RefusesWhatItDoesNotKnow) {
  const auto refuses = [](const char* patch) {
    json file = small();
    file.merge_patch(json::parse(patch));
    EXPECT_THROW(read(file), UsageError) << patch;
  };
  refuses(R"({"method": {}})");
  refuses(R"({"name": "a/b"})");
  refuses(R"({"name": null})");
  refuses(R"({"scopes": {"heads": {}}})");
  refuses(R"({"methods": {"ours": {"method": "weights", "steps": 3}}})");
  refuses(R"({"methods": {"ours": {"starts": 0}}})");
  refuses(R"({"plane": {"methods": ["naive"]}})");
  refuses(R"({"vary": {"rate": {"fast": {"trainings": {}}}}})");
  refuses(R"({"architecture": {"heads": -1}})");
  refuses(R"({"models": 1})");
  refuses(R"({"training": 3})");
  refuses(R"({"methods": []})");
  refuses(R"({"methods": {"ours": 3}})");
  refuses(R"({"methods": {"ours": {"scope": 3}}})");
  refuses(R"({"plane": {"methods": [3]}})");
  refuses(R"({"scopes": {"attention:7": {}}})");
  refuses(R"({"scopes": {"attention:0-1": {}}})");
  refuses(R"({"methods": {"ours": {"method": null}}})");
  refuses(R"({"training": {"seed": 3}})");
  refuses(R"({"plane": {"methods": "ours"}})");
  EXPECT_NO_THROW(read(small()));
}

}  // namespace
}  // namespace regauge::connect
