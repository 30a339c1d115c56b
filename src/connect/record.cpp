#include "record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fields.h"
#include "regauge/base/error.h"

namespace regauge::connect {
namespace {

using nlohmann::json;

json to_json(const Point& point) {
  return {{"t", point.t},
          {"loss", point.loss},
          {"loss_error", number_or_null(point.loss_error)},
          {"accuracy", point.accuracy},
          {"excess", point.excess},
          {"excess_error", number_or_null(point.excess_error)}};
}

json to_json(const RecordedPlane& plane) {
  json rows = json::array();
  for (const auto& row : plane.loss) {
    json values = json::array();
    for (const double value : row) values.push_back(number_or_null(value));
    rows.push_back(values);
  }
  return {{"x", plane.x}, {"y", plane.y}, {"loss", rows},
          {"a", plane.a}, {"b", plane.b}, {"aligned", plane.aligned}};
}

Point point_from_json(const json& value, const std::string& where) {
  Fields fields(value, where);
  Point point;
  point.t = fields.number("t");
  if (point.t < 0 || point.t > 1) fields.refuse("t", "from 0 to 1");
  point.loss = fields.number("loss");
  point.loss_error = fields.number_or_null("loss_error");
  point.accuracy = fields.number("accuracy");
  point.excess = fields.number("excess");
  point.excess_error = fields.number_or_null("excess_error");
  fields.finish();
  return point;
}

std::vector<double> axis(Fields& fields, const std::string& key) {
  const std::vector<double> values = fields.numbers(key);
  bool increasing = values.size() >= 2;
  for (std::size_t i = 1; i < values.size(); ++i) increasing &= values[i] > values[i - 1];
  if (!increasing) fields.refuse(key, "at least two numbers that increase");
  return values;
}

std::array<double, 2> position(Fields& fields, const std::string& key) {
  const std::vector<double> values = fields.numbers(key);
  if (values.size() != 2) fields.refuse(key, "two numbers, x and y");
  return {values[0], values[1]};
}

RecordedPlane plane_from_json(const json& value, const std::string& where) {
  Fields fields(value, where);
  RecordedPlane plane;
  plane.x = axis(fields, "x");
  plane.y = axis(fields, "y");
  const std::string shape =
      fmt::format("{} rows of {} numbers or nulls, as y and x", plane.y.size(), plane.x.size());
  const json& rows = fields.array("loss");
  if (rows.size() != plane.y.size()) fields.refuse("loss", shape);
  for (const json& row : rows) {
    if (!row.is_array() || row.size() != plane.x.size()) fields.refuse("loss", shape);
    std::vector<double>& losses = plane.loss.emplace_back();
    for (const json& loss : row) {
      if (!loss.is_null() && !loss.is_number()) fields.refuse("loss", shape);
      losses.push_back(loss.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                      : loss.get<double>());
    }
  }
  plane.a = position(fields, "a");
  plane.b = position(fields, "b");
  plane.aligned = position(fields, "aligned");
  fields.finish();
  return plane;
}

std::vector<Point> points_from_json(Fields& fields, const std::string& where) {
  std::vector<Point> points;
  for (const json& value : fields.array("points")) {
    points.push_back(point_from_json(value, fmt::format("{}: points[{}]", where, points.size())));
    if (points.size() > 1 && points.back().t <= points[points.size() - 2].t) {
      fields.refuse("points", "in the order of t, each t once");
    }
  }
  if (points.size() < 2) fields.refuse("points", "at least two");
  return points;
}

}  // namespace

double accuracy_barrier(const std::vector<Point>& points) {
  double largest = 0;
  for (const Point& point : points) {
    const double between =
        (1 - point.t) * points.front().accuracy + point.t * points.back().accuracy;
    largest = std::max(largest, between - point.accuracy);
  }
  return largest;
}

double excess_area(const std::vector<Point>& points) {
  double area = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const Point &left = points[i - 1], &right = points[i];
    area += (right.t - left.t) * (left.excess + right.excess) / 2;
  }
  return area;
}

json to_json(const Record& record) {
  json points = json::array();
  for (const Point& point : record.points) points.push_back(to_json(point));
  json result = {{"experiment", record.experiment},
                 {"cell", record.cell},
                 {"scope", record.scope},
                 {"seeds", record.seeds},
                 {"method", record.method},
                 {"architecture", record.architecture},
                 {"training", record.training},
                 {"align", record.align},
                 {"barrier", record.barrier},
                 {"barrier_error", number_or_null(record.barrier_error)},
                 {"barrier_at", record.barrier_at},
                 {"examples", record.examples},
                 {"targets", record.targets},
                 {"points", points},
                 {"made_by", record.made_by},
                 {"accuracy_barrier", accuracy_barrier(record.points)},
                 {"area", excess_area(record.points)}};
  if (!record.line.is_null()) result["line"] = record.line;
  if (!record.residuals.empty()) result["residuals"] = record.residuals;
  for (const auto& [layer, rank] : record.heads) {
    result["heads"][layer] = {
        {"rank", rank.rank}, {"of", rank.of}, {"loss", rank.loss}, {"best", rank.best}};
  }
  if (!record.imbalance.empty()) result["imbalance"] = record.imbalance;
  if (std::isfinite(record.ensemble_loss)) {
    result["ensemble"] = {{"loss", record.ensemble_loss}, {"accuracy", record.ensemble_accuracy}};
  }
  if (record.plane) result["plane"] = to_json(*record.plane);
  if (!record.seconds.empty()) result["seconds"] = record.seconds;
  return result;
}

Record record_from_json(const json& value, const std::string& where) {
  Fields fields(value, where);
  Record record;
  record.experiment = fields.text("experiment");
  for (const auto& [key, text] : fields.object("cell").items()) {
    if (!text.is_string()) fields.refuse("cell", "an object of texts");
    record.cell[key] = text;
  }
  record.scope = fields.text("scope");
  const json& seeds = fields.array("seeds");
  if (seeds.size() != 2 || !seeds[0].is_number_integer() || !seeds[1].is_number_integer()) {
    fields.refuse("seeds", "two whole numbers");
  }
  record.seeds = {seeds[0], seeds[1]};
  record.method = fields.text("method");
  record.architecture = fields.object("architecture");
  record.training = fields.object("training");
  record.align = fields.object("align");
  if (fields.has("line")) record.line = fields.object("line");
  record.barrier = fields.number("barrier");
  record.barrier_error = fields.number_or_null("barrier_error");
  record.barrier_at = fields.number("barrier_at");
  record.examples = fields.count("examples");
  record.targets = fields.count("targets");
  record.points = points_from_json(fields, where);
  if (fields.has("residuals")) record.residuals = fields.numbers_by_name("residuals");
  for (const char* derived : {"accuracy_barrier", "area"}) {
    if (fields.has(derived)) fields.number(derived);
  }
  if (fields.has("heads")) {
    for (const auto& [layer, rank] : fields.object("heads").items()) {
      Fields of_layer(rank, fmt::format("{}: heads: {}", where, layer));
      record.heads[layer] = {of_layer.count("rank"), of_layer.count("of"), of_layer.number("loss"),
                             of_layer.number("best")};
      of_layer.finish();
    }
  }
  if (fields.has("imbalance")) record.imbalance = fields.numbers_by_name("imbalance");
  if (fields.has("ensemble")) {
    Fields ensemble(fields.object("ensemble"), where + ": ensemble");
    record.ensemble_loss = ensemble.number("loss");
    record.ensemble_accuracy = ensemble.number("accuracy");
    ensemble.finish();
  }
  if (fields.has("plane")) record.plane = plane_from_json(fields.at("plane"), where + ": plane");
  if (fields.has("seconds")) record.seconds = fields.numbers_by_name("seconds");
  record.made_by = fields.object("made_by");
  Fields maker(record.made_by, where + ": made_by");
  maker.text("regauge");
  maker.text("commit");
  fields.finish();
  return record;
}

}  // namespace regauge::connect
