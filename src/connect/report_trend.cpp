#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>

#include "chart.h"
#include "io/page.h"
#include "report_parts.h"

namespace regauge::connect {
namespace {

// A positive number, and nothing else.
std::optional<double> number_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value) || value <= 0) return {};
  return value;
}

// The one key that varies, if its values are at least three positive numbers.
std::optional<std::string> numeric_key(const ExperimentTable& experiment) {
  std::map<std::string, std::set<std::string>> values;
  for (const Cell& cell : experiment.cells) {
    if (cell.size() != experiment.cells.front().size()) return {};
    for (const auto& [key, value] : cell) values[key].insert(value);
  }
  std::optional<std::string> found;
  for (const auto& [key, distinct] : values) {
    if (distinct.size() < 2) continue;
    if (found || distinct.size() < 3) return {};
    for (const std::string& value : distinct) {
      if (!number_of(value)) return {};
    }
    found = key;
  }
  return found;
}

std::vector<Series> trends_of(const ExperimentTable& experiment, const std::string& scope,
                              const std::string& key) {
  std::vector<Series> trends;
  for (std::size_t i = 0; i < experiment.methods.size(); ++i) {
    Series series;
    series.name = experiment.methods[i];
    series.look = look_in(experiment, series.name);
    for (const Row& row : experiment.rows) {
      const Field& field = row.fields[i];
      if (row.scope != scope || field.records.empty()) continue;
      const auto [least, greatest] = std::minmax_element(
          field.records.begin(), field.records.end(),
          [](const Record* l, const Record* r) { return l->barrier < r->barrier; });
      series.x.push_back(*number_of(row.cell.at(key)));
      series.y.push_back(field.mean);
      series.low.push_back((*least)->barrier);
      series.high.push_back((*greatest)->barrier);
    }
    if (series.x.size() > 1) trends.push_back(std::move(series));
  }
  return trends;
}

}  // namespace

void add_trend(Html& html, const ExperimentTable& experiment) {
  const auto key = numeric_key(experiment);
  if (!key || experiment.records == 0) return;
  html.line("<h3>Barriers by {}</h3>", io::escaped(*key));
  html.line(
      "<p class=\"small soft\">Means over pairs, bands from the lowest pair to the highest; {} by "
      "ratio.</p><div class=\"pair\">",
      io::escaped(*key));
  for (const std::string& scope : experiment.scopes) {
    const std::vector<Series> trends = trends_of(experiment, scope, *key);
    if (trends.empty()) continue;
    html.line("<figure><figcaption>{}</figcaption>", scope_words(scope));
    LineLabels labels;
    labels.title = "The barrier by " + *key;
    labels.x = *key;
    labels.y = "barrier, nats";
    labels.log_x = true;
    html.add(line_chart(trends, labels, Medium::page));
    html.line("</figure>");
  }
  html.line("</div>");
}

}  // namespace regauge::connect
