#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace regauge::connect {

// One point of the line (1 - t) A + t B. `excess` is L(t) - (1 - t) L(0) - t L(1).
struct Point {
  double t = 0, loss = 0, loss_error = 0, accuracy = 0, excess = 0, excess_error = 0;
};

// The loss on a grid of a plane through A, B and B aligned to A; the last three are points of it.
struct RecordedPlane {
  std::vector<double> x, y;               // increasing, at least two each
  std::vector<std::vector<double>> loss;  // [y][x]; NaN where it was not finite
  std::array<double, 2> a{}, b{}, aligned{};
};

// One measurement of a study: two models, one method. In a file it is a line of JSON with these
// keys; see to_json.
struct Record {
  std::string experiment;
  std::map<std::string, std::string> cell;  // what the experiment varies
  std::string scope;                        // what the two models do not share
  std::array<std::int64_t, 2> seeds{};
  std::string method;
  // As the runs had them; objects whose keys are theirs.
  nlohmann::json architecture, training, align;
  nlohmann::json line;  // likewise: points, and examples as asked for; null if not known
  double barrier = 0, barrier_error = 0, barrier_at = 0;  // an error is NaN if it is not known
  std::int64_t examples = 0, targets = 0;
  std::vector<Point> points;  // t increasing in [0, 1], at least two
  // What the means of A's and B's predictions score, where models share nothing; NaN if not known.
  double ensemble_loss = std::numeric_limits<double>::quiet_NaN();
  double ensemble_accuracy = std::numeric_limits<double>::quiet_NaN();
  // The found permutation of a layer's heads among all of them, by the loss in the middle of the
  // line: its place from 1 on, and the lowest loss of any.
  struct HeadRank {
    std::int64_t rank = 0, of = 0;
    double loss = 0, best = 0;
  };
  std::map<std::string, HeadRank> heads;    // by layer: "layers.0"
  std::map<std::string, double> imbalance;  // of A's and B's heads as they are, by layer
  std::map<std::string, double> residuals;  // |A - g B| / |A| by canonical tensor
  std::optional<RecordedPlane> plane;
  std::map<std::string, double> seconds;  // by step
  nlohmann::json made_by;                 // an object with the strings `regauge` and `commit`
};

// The most by which the accuracy lies below the straight line between its ends.
double accuracy_barrier(const std::vector<Point>& points);
// The mean excess on the line: the area under its curve, by the trapezoidal rule.
double excess_area(const std::vector<Point>& points);

// What is NaN becomes null; an empty `residuals`, `imbalance` or `seconds`, a missing plane, line
// and ensemble are left out. `accuracy_barrier` and `area` are written for readers of the file and
// computed from the points where they are needed.
nlohmann::json to_json(const Record& record);

// `where` begins the messages. Refuses unknown, missing and ill-typed keys, numbers that are not
// finite, t out of order. Throws UsageError.
Record record_from_json(const nlohmann::json& json, const std::string& where);

// Every line of every *.jsonl in DIR/records, or in DIR if there is no such folder; files by name.
// A measurement that is there twice counts once if both have the same barrier. Throws FileError if
// there are none, UsageError with file, line and what to do.
std::vector<Record> read_records(const std::filesystem::path& folder);

}  // namespace regauge::connect
