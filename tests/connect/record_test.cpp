// Records survive being written and read; what is wrong with one is said with file and line.
#include "connect/record.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "equivalence/temporary.h"
#include "records.h"
#include "regauge/base/error.h"

namespace regauge::connect {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::record;
using testing::Temporary;

Record whole() {
  Record result = record({{"positions", "rotary"}}, "attention:0", {1, 2}, "two_stage", 0.25);
  result.residuals = {{"layers.0.attn.q.weight", 0.9}};
  result.plane = RecordedPlane{{0, 1, 2}, {0, 1}, {{1, 2, 3}, {4, 5, NAN}}, {0, 0}, {2, 0}, {1, 1}};
  result.seconds = {{"align", 1.5}};
  result.imbalance = {{"layers.0.attn.qk", 0.2}};
  result.heads = {{"layers.0", {2, 24, 0.9, 0.8}}};
  result.ensemble_loss = 0.7;
  result.ensemble_accuracy = 0.6;
  return result;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string refusal(const fs::path& folder) {
  try {
    read_records(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Record, IsReadAsItWasWritten) {
  const json written = to_json(whole());
  const Record read = record_from_json(written, "here");
  EXPECT_EQ(to_json(read), written);
  EXPECT_EQ(read.seeds, (std::array<std::int64_t, 2>{1, 2}));
  ASSERT_TRUE(read.plane);
  EXPECT_TRUE(std::isnan(read.plane->loss[1][2]));
}

TEST(Record, AreaAndAccuracyFollowFromThePoints) {
  const std::vector<Point> points = {{.t = 0, .accuracy = 0.8, .excess = 0},
                                     {.t = 0.25, .accuracy = 0.6, .excess = 0.4},
                                     {.t = 0.75, .accuracy = 0.3, .excess = 0.2},
                                     {.t = 1, .accuracy = 0.4, .excess = 0}};
  EXPECT_NEAR(accuracy_barrier(points), 0.2, 1e-12);  // 0.5 at t = 0.75
  EXPECT_NEAR(excess_area(points), 0.05 + 0.15 + 0.025, 1e-12);
  json without = to_json(whole());
  without.erase("area");
  without.erase("accuracy_barrier");
  EXPECT_NO_THROW(record_from_json(without, "here"));
}

TEST(Record, AnErrorThatIsNotKnownIsNull) {
  Record unknown = whole();
  unknown.barrier_error = NAN;
  const json written = json::parse(to_json(unknown).dump());
  EXPECT_TRUE(written["barrier_error"].is_null());
  EXPECT_TRUE(std::isnan(record_from_json(written, "here").barrier_error));
}

TEST(Record, FoldersAndFilesInOrder) {
  const Temporary folder("records");
  const std::string line = to_json(whole()).dump();
  Record other = whole();
  other.method = "naive";
  write(folder / "records/b.jsonl", line + "\n\n");
  write(folder / "records/a.jsonl", to_json(other).dump());
  write(folder / "records/notes.txt", "not a record");
  const auto records = read_records(folder / "");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].method, "naive");
  EXPECT_EQ(read_records(folder / "records").size(), 2U);
}

TEST(Record, TwiceCountsOnceUnlessTheyDisagree) {
  const Temporary folder("records-twice");
  Record other = whole();
  other.seconds["align"] = 9;
  write(folder / "a.jsonl", to_json(whole()).dump() + "\n" + to_json(other).dump() + "\n");
  EXPECT_EQ(read_records(folder / "").size(), 1U);
  other.barrier = 0.3;
  write(folder / "b.jsonl", to_json(other).dump() + "\n");
  const std::string message = refusal(folder / "");
  EXPECT_NE(message.find("b.jsonl:1: the same measurement as"), std::string::npos) << message;
  EXPECT_NE(message.find("a.jsonl:1 with another barrier"), std::string::npos) << message;
}

TEST(Record, NothingThere) {
  const Temporary folder("records-none");
  EXPECT_NE(refusal(folder / "").find("no *.jsonl here"), std::string::npos);
  EXPECT_NE(refusal(folder / "absent").find("[records]"), std::string::npos);
  write(folder / "a.jsonl", "\n");
  EXPECT_NE(refusal(folder / "").find("no records"), std::string::npos);
}

TEST(Record, HostileLines) {
  struct Case {
    std::function<void(json&)> spoil;
    const char* said;
  };
  const std::vector<Case> cases = {
      {[](json& j) { j.erase("method"); }, "'method' is missing"},
      {[](json& j) { j["surprise"] = 1; }, "'surprise' is no key here"},
      {[](json& j) { j["barrier"] = "0.2"; }, "'barrier' must be a finite number, not \"0.2\""},
      {[](json& j) { j["barrier"] = nullptr; }, "'barrier' must be a finite number, not null"},
      {[](json& j) { j["examples"] = -3; }, "'examples' must be a whole number"},
      {[](json& j) { j["cell"]["positions"] = 3; }, "'cell' must be an object of texts"},
      {[](json& j) { j["cell"] = json::array(); }, "'cell' must be an object"},
      {[](json& j) { j["seeds"] = {1}; }, "'seeds' must be two whole numbers"},
      {[](json& j) {
         j["seeds"] = {1, 2.5};
       },
       "'seeds' must be two whole numbers"},
      {[](json& j) { j["points"] = json::array(); }, "'points' must be at least two"},
      {[](json& j) { j["points"][1] = 3; }, "points[1]: must be an object"},
      {[](json& j) { j["points"][1]["t"] = 2; }, "points[1]: 't' must be from 0 to 1"},
      {[](json& j) { j["points"][1]["t"] = 0; }, "'points' must be in the order of t"},
      {[](json& j) { j["points"][1].erase("loss"); }, "points[1]: 'loss' is missing"},
      {[](json& j) { j["points"][1]["lost"] = 1; }, "points[1]: 'lost' is no key here"},
      {[](json& j) { j["residuals"]["x"] = "y"; }, "'residuals' must be an object of finite"},
      {[](json& j) {
         j["plane"]["x"] = {1, 0, 2};
       },
       "plane: 'x' must be at least two"},
      {[](json& j) { j["plane"]["y"] = json::array(); }, "plane: 'y' must be at least two"},
      {[](json& j) { j["plane"]["loss"].erase(0); }, "plane: 'loss' must be 2 rows of 3"},
      {[](json& j) { j["plane"]["loss"][0] = {1}; }, "plane: 'loss' must be 2 rows of 3"},
      {[](json& j) { j["plane"]["loss"][0][1] = "x"; }, "plane: 'loss' must be 2 rows of 3"},
      {[](json& j) { j["plane"]["a"] = {1}; }, "plane: 'a' must be two numbers"},
      {[](json& j) { j["ensemble"].erase("loss"); }, "ensemble: 'loss' is missing"},
      {[](json& j) { j["heads"]["layers.0"]["rank"] = -1; }, "heads: layers.0: 'rank' must be"},
      {[](json& j) { j["area"] = "x"; }, "'area' must be a finite number"},
      {[](json& j) { j["made_by"].erase("commit"); }, "made_by: 'commit' is missing"},
      {[](json& j) { j["training"] = "fast"; }, "'training' must be an object"},
  };
  const Temporary folder("records-hostile");
  for (const auto& [spoil, said] : cases) {
    json spoilt = to_json(whole());
    spoil(spoilt);
    write(folder / "a.jsonl", fmt::format("\n{}\n", spoilt.dump()));
    const std::string message = refusal(folder / "");
    EXPECT_NE(message.find(said), std::string::npos) << said << "\nnot in: " << message;
    EXPECT_NE(message.find("a.jsonl:2: "), std::string::npos) << message;
    EXPECT_NE(message.find("measure it again"), std::string::npos) << message;
  }
}

TEST(Record, LinesThatAreNoJson) {
  const Temporary folder("records-json");
  const std::string line = to_json(whole()).dump();
  for (const std::string& bad : {line.substr(0, line.size() / 2), std::string("[1, 2]"),
                                 std::string("\xff\xfe"), std::string("{\"a\": 1, \"a\": 2}"),
                                 std::string("{\"barrier\": 1e999}"), std::string(1000, '{')}) {
    write(folder / "a.jsonl", line + "\n" + bad + "\n");
    EXPECT_NE(refusal(folder / "").find("a.jsonl:2: "), std::string::npos) << bad;
  }
}

}  // namespace
}  // namespace regauge::connect
