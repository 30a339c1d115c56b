#include <algorithm>
#include <cmath>

#include "regauge/connect/chart.h"
#include "regauge/io/page.h"
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
Series curve_of(const Field& field, const std::string& method, double Point::*value) {
  Series series;
  series.name = method;
  series.look = look_of(method);
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

std::vector<Series> curves_of(const Experiment& experiment, const Row& row, double Point::*value) {
  std::vector<Series> curves;
  for (std::size_t i = 0; i < row.fields.size(); ++i) {
    if (row.fields[i].records.empty()) continue;
    curves.push_back(curve_of(row.fields[i], experiment.methods[i], value));
  }
  return curves;
}

std::pair<double, double> joint_range(const std::vector<std::vector<Series>>& charts) {
  double low = 0, high = 0;
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
  return {low, high > low ? high : low + 1};
}

void add_numbers(Html& html, const std::vector<Series>& excess) {
  html.line(
      "<details><summary class=\"small\">Numbers</summary><div class=\"scroll\">"
      "<table class=\"list\"><thead><tr><th>t</th>");
  for (const Series& series : excess) html.line("<th>{}</th>", escaped(series.name));
  html.line("</tr></thead><tbody>");
  for (std::size_t i = 0; i < excess.front().x.size(); ++i) {
    html.add(fmt::format("<tr><td>{:.3g}</td>", excess.front().x[i]));
    for (const Series& series : excess) {
      const bool same = i < series.x.size() && series.x[i] == excess.front().x[i];
      html.add("<td>" + (same ? shown(series.y[i]) : "") + "</td>");
    }
    html.add("</tr>\n");
  }
  html.line("</tbody></table></div></details>");
}

}  // namespace

void add_curves(Html& html, const Experiment& experiment, const std::string& id) {
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
    LineLabels losses{"", "t, from A to B", "excess loss, nats", joint_range(excess), false, false};
    LineLabels hits{"", "t, from A to B", "accuracy", joint_range(accuracy), false, true};
    html.line(
        "<details class=\"part\" id=\"{}-curves-{}\"{}><summary>{} <small>{} cells</small>"
        "</summary><div class=\"legend\">",
        id, i, i == 0 ? " open=\"open\"" : "", scope_words(scope), rows.size());
    for (const std::string& method : experiment.methods) {
      const std::string note = method_note(method);
      html.line("<span>{}{}{}</span>", series_swatch(look_of(method)), escaped(method),
                note.empty() ? "" : " (" + note + ")");
    }
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
      html.add(line_chart(excess[j], losses, Placement::page));
      html.add(line_chart(accuracy[j], hits, Placement::page));
      html.line("</div>");
      add_numbers(html, excess[j]);
      html.line("</figure>");
    }
    html.line("</details>");
  }
}

}  // namespace regauge::connect
