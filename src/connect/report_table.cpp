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

// Each pair's own barrier, for the reader who points at the field.
std::string pairs_told(const Field& field) {
  std::string told;
  for (const Record* record : field.records) {
    if (!told.empty()) told += "&#10;";
    told +=
        fmt::format("seeds {}, {}: {}", record->seeds[0], record->seeds[1], shown(record->barrier));
    if (std::isfinite(record->barrier_error))
      told += " ± " + shown_spread(record->barrier_error, record->barrier);
    told +=
        fmt::format(" at t = {:.3g}, {} examples; accuracy {} lower, area {}", record->barrier_at,
                    record->examples, shown(accuracy_barrier(record->points)),
                    shown(excess_area(record->points)));
  }
  return told;
}

void add_field(Html& html, const Field& field, bool is_naive, int look, double largest,
               double least) {
  if (field.records.empty()) {
    html.line("<td class=\"none\">not run</td>");
    return;
  }
  const std::string spread =
      std::isfinite(field.spread)
          ? " <span class=\"soft\">± " + shown_spread(field.spread, field.mean) + "</span>"
          : "";
  const std::string ratio =
      std::isfinite(field.ratio) && !is_naive
          ? fmt::format("{:.{}f} % · ", 100 * field.ratio, 100 * field.ratio < 9.95 ? 1 : 0)
          : "";
  const std::string missing =
      field.missing > 0 ? fmt::format(" of {}", field.n() + field.missing) : "";
  const double length = largest > 0 ? std::clamp(100 * field.mean / largest, 0.0, 100.0) : 0;
  html.line(
      "<td{} title=\"{}\"><b>{}</b>{}"
      "<svg class=\"chart bar\" viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\" "
      "aria-hidden=\"true\"><rect class=\"mark k{}\" width=\"{:.1f}\" height=\"4\"/></svg>"
      "<small>{}n {}{}</small></td>",
      field.mean == least ? " class=\"least\"" : "", pairs_told(field), shown(field.mean), spread,
      look, length, ratio, field.n(), missing);
}

void add_row(Html& html, const ExperimentTable& experiment, const Row& row) {
  double largest = 0, least = std::numeric_limits<double>::infinity();
  for (const Field& field : row.fields) {
    if (field.records.empty()) continue;
    largest = std::max(largest, field.mean);
    least = std::min(least, field.mean);
  }
  html.line("<tr><th scope=\"row\">{}</th>", cell_values(experiment, row.cell));
  for (std::size_t i = 0; i < row.fields.size(); ++i) {
    const std::string& method = experiment.methods[i];
    add_field(html, row.fields[i], method == "naive", look_in(experiment, method), largest, least);
  }
  html.line("</tr>");
}

}  // namespace

void add_table(Html& html, const ExperimentTable& experiment) {
  html.line("<div class=\"scroll\"><table class=\"barriers\"><thead><tr><th scope=\"col\">{}</th>",
            cell_keys(experiment));
  for (const std::string& method : experiment.methods) {
    html.line("<th scope=\"col\">{}<small>{}</small></th>", escaped(method), method_note(method));
  }
  html.line("</tr></thead>");
  for (const std::string& scope : experiment.scopes) {
    html.line("<tbody><tr class=\"scope\"><th colspan=\"{}\"><span>{}</span></th></tr>",
              experiment.methods.size() + 1, scope_name(scope));
    for (const Row& row : experiment.rows) {
      if (row.scope == scope) add_row(html, experiment, row);
    }
    html.line("</tbody>");
  }
  html.line("</table></div>");
}

void add_ensembles(Html& html, const ExperimentTable& experiment) {
  const auto measured = [](const Row& row) { return std::isfinite(row.ensemble); };
  if (std::none_of(experiment.rows.begin(), experiment.rows.end(), measured)) return;
  html.line(
      "<h3>Does merging pay?</h3><p class=\"small soft\">Losses in nats, means over pairs: of the "
      "models themselves, of the mean of their predictions (which runs both), and of the mean of "
      "their weights after each method (which runs one).</p>");
  html.line("<div class=\"scroll\"><table class=\"barriers\"><thead><tr><th scope=\"col\">{}</th>",
            cell_keys(experiment));
  html.line("<th scope=\"col\">models</th><th scope=\"col\">predictions</th>");
  for (const std::string& method : experiment.methods) {
    html.line("<th scope=\"col\">{}</th>", escaped(method));
  }
  html.line("</tr></thead><tbody>");
  for (const Row& row : experiment.rows) {
    if (!measured(row)) continue;
    html.line("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td>",
              cell_values(experiment, row.cell), shown(row.ends), shown(row.ensemble));
    for (const Field& field : row.fields) {
      html.line("<td>{}</td>", field.records.empty() ? "not run" : shown(field.middle));
    }
    html.line("</tr>");
  }
  html.line("</tbody></table></div>");
}

}  // namespace regauge::connect
