#include <algorithm>
#include <set>

#include "io/page.h"
#include "report_parts.h"

namespace regauge::connect {
namespace {

using io::escaped;
using nlohmann::json;

std::string shown_value(const json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Every key of one object of the records with the values that it has among them.
void add_values(Html& html, const ExperimentTable& experiment, const char* name,
                const json Record::*settings) {
  constexpr std::size_t kMost = 8;
  std::map<std::string, std::set<std::string>> values;
  for (const Row& row : experiment.rows) {
    for (const Field& field : row.fields) {
      for (const Record* record : field.records) {
        for (const auto& [key, value] : (record->*settings).items()) {
          values[key].insert(shown_value(value));
        }
      }
    }
  }
  for (const auto& [key, distinct] : values) {
    std::vector<std::string> ordered(distinct.begin(), distinct.end());
    std::sort(ordered.begin(), ordered.end(), value_before);
    std::string text;
    for (std::size_t i = 0; i < std::min(ordered.size(), kMost); ++i) {
      text += (i == 0 ? "" : ", ") + escaped(ordered[i]);
    }
    if (ordered.size() > kMost) text += fmt::format(" and {} more", ordered.size() - kMost);
    html.line("<tr><td>{} {}</td><td>{}</td></tr>", name, escaped(key), text);
  }
}

}  // namespace

void add_settings(Html& html, const ExperimentTable& experiment) {
  if (experiment.records == 0) return;
  std::map<std::string, double> seconds;
  std::set<std::int64_t> examples;
  for (const Row& row : experiment.rows) {
    for (const Field& field : row.fields) {
      for (const Record* record : field.records) {
        for (const auto& [step, value] : record->seconds) seconds[step] += value;
        examples.insert(record->examples);
      }
    }
  }
  html.line(
      "<details class=\"part\"><summary>Settings <small>architecture, training, alignment, time"
      "</small></summary><div class=\"scroll\"><table class=\"list settings\"><tbody>");
  add_values(html, experiment, "architecture", &Record::architecture);
  add_values(html, experiment, "training", &Record::training);
  add_values(html, experiment, "align", &Record::align);
  html.line("<tr><td>examples per point</td><td>{}</td></tr>",
            *examples.begin() == *examples.rbegin()
                ? fmt::format("{}", *examples.begin())
                : fmt::format("{} to {}", *examples.begin(), *examples.rbegin()));
  for (const auto& [step, value] : seconds) {
    html.line("<tr><td>time, {}</td><td>{:.0f} s in all</td></tr>", escaped(step), value);
  }
  html.line("</tbody></table></div></details>");
}

}  // namespace regauge::connect
