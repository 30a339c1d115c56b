#include <algorithm>
#include <cmath>
#include <limits>

#include "chart.h"
#include "io/page.h"
#include "report_parts.h"
#include "svg.h"

namespace regauge::connect {
namespace {

using io::escaped;

// A record's value at t, linear between its points.
double value_at(const Record& record, double Point::*value, double t) {
  const auto& points = record.points;
  const auto after =
      std::find_if(points.begin(), points.end(), [&](const Point& point) { return point.t >= t; });
  if (after == points.begin()) return points.front().*value;
  if (after == points.end()) return points.back().*value;
  const Point &from = *(after - 1), &to = *after;
  const double part = (t - from.t) / (to.t - from.t);
  return (1 - part) * from.*value + part * to.*value;
}

// The mean over pairs at the t of the first, between the least and the greatest of them.
Series curve_of(const Field& field, double Point::*value) {
  Series series;
  for (const Point& point : field.records.front()->points) {
    double sum = 0, low = 0, high = 0;
    for (const Record* record : field.records) {
      const double here = value_at(*record, value, point.t);
      low = record == field.records.front() ? here : std::min(low, here);
      high = record == field.records.front() ? here : std::max(high, here);
      sum += here;
    }
    series.x.push_back(point.t);
    series.y.push_back(sum / static_cast<double>(field.records.size()));
    if (field.records.size() < 2) continue;
    series.low.push_back(low);
    series.high.push_back(high);
  }
  return series;
}

std::vector<Series> curves_of(const ExperimentTable& experiment, const Row& row,
                              double Point::*value) {
  std::vector<Series> curves;
  for (std::size_t i = 0; i < row.fields.size(); ++i) {
    if (row.fields[i].records.empty()) continue;
    Series& curve = curves.emplace_back(curve_of(row.fields[i], value));
    curve.name = experiment.methods[i];
    curve.look = look_in(experiment, curve.name);
  }
  return curves;
}

// The range of all charts of a comparison, from 0 unless all of it lies far above.
std::pair<double, double> joint_range(const std::vector<std::vector<Series>>& charts) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto& chart : charts) {
    for (const Series& series : chart) {
      for (const auto* values : {&series.y, &series.low, &series.high}) {
        for (const double value : *values) {
          low = std::min(low, value);
          high = std::max(high, value);
        }
      }
    }
  }
  if (low > 0 && low < 0.5 * high) low = 0;
  return high > low ? std::pair(low, high) : std::pair(0.0, 1.0);
}

void add_numbers(Html& html, const std::string& name, const std::vector<Series>& curves,
                 double factor) {
  html.line(
      "<div class=\"scroll\"><table class=\"list\"><caption>{}</caption><thead><tr><th>t</th>",
      name);
  for (const Series& series : curves) html.line("<th>{}</th>", escaped(series.name));
  html.line("</tr></thead><tbody>");
  for (std::size_t i = 0; i < curves.front().x.size(); ++i) {
    html.add(fmt::format("<tr><td>{:.3g}</td>", curves.front().x[i]));
    for (const Series& series : curves) {
      const bool same = i < series.x.size() && series.x[i] == curves.front().x[i];
      html.add(same ? fmt::format("<td>{:.4f}</td>", factor * series.y[i]) : "<td></td>");
    }
    html.add("</tr>\n");
  }
  html.line("</tbody></table></div>");
}

}  // namespace

void add_curves(Html& html, const ExperimentTable& experiment, const std::string& id) {
  bool first = true;
  for (std::size_t i = 0; i < experiment.scopes.size(); ++i) {
    const std::string& scope = experiment.scopes[i];
    std::vector<std::vector<Series>> excess, accuracy;
    std::vector<const Row*> rows;
    for (const Row& row : experiment.rows) {
      if (row.scope != scope) continue;
      rows.push_back(&row);
      excess.push_back(curves_of(experiment, row, &Point::excess));
      accuracy.push_back(curves_of(experiment, row, &Point::accuracy));
    }
    const auto is_empty = [](const auto& curves) { return curves.empty(); };
    if (std::all_of(excess.begin(), excess.end(), is_empty)) continue;  // the table says so
    LineLabels losses{"", "t, from A to B", "excess loss, nats", joint_range(excess), false, false};
    LineLabels hits{"", "t, from A to B", "accuracy", joint_range(accuracy), false, true};
    html.line(
        "<details class=\"part\" id=\"{}-curves-{}\"{}><summary>{} <small>{}</small>"
        "</summary><div class=\"legend\">",
        id, i, first ? " open=\"open\"" : "", scope_words(scope), plural(rows.size(), "cell"));
    for (const std::string& method : experiment.methods) {
      const std::string note = method_note(method);
      html.line("<span>{}{}{}</span>", series_swatch(look_in(experiment, method)), escaped(method),
                note.empty() ? "" : " (" + note + ")");
    }
    first = false;
    html.line("</div>");
    for (std::size_t j = 0; j < rows.size(); ++j) {
      const std::string name = cell_name(experiment, rows[j]->cell);
      if (excess[j].empty()) {
        html.line("<figure><figcaption>{} <small>not run</small></figcaption></figure>", name);
        continue;
      }
      losses.title = fmt::format("Excess loss on the line, {}", scope);
      hits.title = fmt::format("Accuracy on the line, {}", scope);
      html.line("<figure><figcaption>{}</figcaption><div class=\"pair\">", name);
      html.add(line_chart(excess[j], losses, Medium::page));
      html.add(line_chart(accuracy[j], hits, Medium::page));
      html.line("</div><details><summary class=\"small\">Numbers</summary><div class=\"pair\">");
      add_numbers(html, "excess loss", excess[j], 1);
      add_numbers(html, "accuracy, %", accuracy[j], 100);
      html.line("</div></details>");
      html.line("</figure>");
    }
    html.line("</details>");
  }
}

}  // namespace regauge::connect
