#include "report.h"

#include <algorithm>

#include "chart.h"
#include "io/page.h"
#include "regauge/base/version.h"
#include "report_parts.h"
#include "report_style.h"

namespace regauge::connect {
namespace {

using io::escaped;

std::string id_of(std::size_t experiment) { return fmt::format("e{}", experiment); }

bool has_method(const Summary& summary, const std::string& method) {
  return std::any_of(summary.experiments.begin(), summary.experiments.end(), [&](const auto& e) {
    return std::find(e.methods.begin(), e.methods.end(), method) != e.methods.end();
  });
}

void add_head(Html& html, const Summary& summary, const std::string& title) {
  html.line("<header><p class=\"kicker\">Report</p><h1>{}</h1>", escaped(title));
  html.line(
      "<p>Two trained models A and B, and the straight line between their weights. The barrier is "
      "the most by which the loss on the line lies above the straight line between the losses of "
      "its ends, max over t of L(t) − (1 − t) L(0) − t L(1), in nats. A method first writes B in "
      "A’s coordinates, which does not change what B computes.</p>");
  if (has_method(summary, "two_stage")) {
    html.line(
        "<p class=\"small soft\"><code>two_stage</code>, with its parts stage one and orthogonal, "
        "is "
        "our reconstruction of the attention matcher of Tran et al. (ICML 2026) from secondary "
        "summaries; the text of the paper was not available.</p>");
  }
  html.line("</header>");
  html.line("<div class=\"facts\">");
  const auto fact = [&](std::int64_t count, const char* name) {
    html.line("<div><b>{}</b>{}</div>", count, name);
  };
  fact(static_cast<std::int64_t>(summary.experiments.size()), "experiments");
  fact(summary.models, "models");
  fact(summary.pairs, "pairs of models");
  fact(summary.records, "measurements");
  fact(summary.missing, "not run");
  html.line("</div>");
  std::string makers;
  for (const auto& [maker, count] : summary.makers) {
    makers += fmt::format("{}regauge <code>{}</code> ({})", makers.empty() ? "" : ", ",
                          escaped(maker), count);
  }
  html.line("<p class=\"small soft\">Measured by {}.</p>", makers);
}

void add_contents(Html& html, const Summary& summary) {
  html.line("<nav aria-label=\"Contents\"><ul>");
  for (std::size_t i = 0; i < summary.experiments.size(); ++i) {
    const ExperimentTable& experiment = summary.experiments[i];
    const std::string id = id_of(i);
    html.add(fmt::format("<li><a href=\"#{0}\"><b>{1}</b></a>: <a href=\"#{0}-table\">barriers</a>",
                         id, escaped(experiment.name)));
    if (experiment.records > 0) html.add(fmt::format(", <a href=\"#{}-curves\">curves</a>", id));
    if (has_planes(experiment)) html.add(fmt::format(", <a href=\"#{}-planes\">planes</a>", id));
    if (has_residuals(experiment)) {
      html.add(fmt::format(", <a href=\"#{}-residuals\">residuals</a>", id));
    }
    html.line(" <span class=\"soft\">({} × {}{})</span></li>",
              plural(experiment.cells.size(), "cell"), plural(experiment.scopes.size(), "scope"),
              experiment.missing > 0 ? fmt::format("; {} not run", experiment.missing) : "");
  }
  html.line("</ul></nav>");
}

void add_experiment(Html& html, const ExperimentTable& experiment, const std::string& id) {
  html.line("<section id=\"{}\"><h2>{}</h2>", id, escaped(experiment.name));
  const std::string same = constants(experiment);
  if (!same.empty()) html.line("<p>Everywhere: {}.</p>", same);
  html.line("<h3 id=\"{}-table\">Barriers</h3>", id);
  add_table(html, experiment);
  html.line(
      "<p class=\"small soft\">Nats: the mean over pairs ± their standard deviation; below it the "
      "share of the naive barrier over the same pairs, and how many pairs (n). The lowest of a row "
      "is underlined, bars compare within a row. Rows by what the two models do not share; point "
      "at a field for its pairs.{}</p>",
      experiment.missing > 0
          ? fmt::format(" Of the measurements that the table has room for, {} {} not run.",
                        experiment.missing, experiment.missing == 1 ? "was" : "were")
          : "");
  add_ensembles(html, experiment);
  add_trend(html, experiment);
  add_settings(html, experiment);
  if (experiment.records > 0) {
    html.line("<h3 id=\"{}-curves\">On the line</h3>", id);
    html.line(
        "<p class=\"small soft\">Lines are means over pairs, bands reach from the lowest pair to "
        "the highest. Cells of one scope share their scales. Point at a chart for numbers.</p>");
    add_curves(html, experiment, id);
  }
  if (has_planes(experiment)) {
    html.line("<h3 id=\"{}-planes\">Planes</h3>", id);
    html.line(
        "<p class=\"small soft\">The loss on the plane through A, B and B aligned, for one pair of "
        "each: dashed the way from A to B, solid that to B aligned. B and B aligned compute the "
        "same. Planes of one scope share their levels, which are closer where the loss is "
        "low.</p>");
    add_planes(html, experiment, id);
  }
  if (has_residuals(experiment)) {
    html.line("<h3 id=\"{}-residuals\">Residuals</h3>", id);
    html.line(
        "<p class=\"small soft\">How far B is from A after the method, |A − gB| / |A| for each "
        "kind of tensor (down) and layer (across); what is in no layer spans them. 0 is equal; two "
        "unrelated tensors of one size are at about 1.4.</p>");
    add_residuals(html, experiment, id);
  }
  html.line("</section>");
}

}  // namespace

std::string report_page(const Summary& summary) {
  const std::string title = "Linear mode connectivity";
  Html html;
  add_head(html, summary, title);
  add_contents(html, summary);
  for (std::size_t i = 0; i < summary.experiments.size(); ++i) {
    add_experiment(html, summary.experiments[i], id_of(i));
  }
  html.line(
      "<footer class=\"small soft\"><p>Made by regauge {} from the records and plans that it was "
      "given; it needs no "
      "network and runs no script.</p></footer>",
      version());
  return io::html_page(title, std::string(chart_style()) + kReportStyle, html.text());
}

}  // namespace regauge::connect
