#include <cmath>

#include "chart.h"
#include "io/page.h"
#include "report_parts.h"
#include "svg.h"

namespace regauge::connect {
namespace {

using io::escaped;

// The first pair's plane of each method.
const Record* with_plane(const Field& field) {
  for (const Record* record : field.records) {
    if (record->plane) return record;
  }
  return nullptr;
}

std::string loss_told(const char* name, double loss) {
  return std::isfinite(loss) ? fmt::format("{} {}", name, shown(loss)) : std::string(name);
}

// The losses of the ends, B's the same in both places, and of the middles between them, which lie
// between points of the grid.
std::string places_told(const Record& record) {
  const RecordedPlane& plane = *record.plane;
  const auto &a = plane.a, &b = plane.b, &c = plane.aligned;
  const auto middle = [&](const std::array<double, 2>& to) {
    return loss_at(plane, (a[0] + to[0]) / 2, (a[1] + to[1]) / 2);
  };
  return fmt::format("{}, {}; about {}, {}", loss_told("A", record.points.front().loss),
                     loss_told("B", record.points.back().loss),
                     loss_told("halfway to B", middle(b)),
                     loss_told("halfway to B aligned", middle(c)));
}

}  // namespace

bool has_planes(const ExperimentTable& experiment) {
  for (const Row& row : experiment.rows) {
    for (const Field& field : row.fields) {
      if (with_plane(field)) return true;
    }
  }
  return false;
}

void add_planes(Html& html, const ExperimentTable& experiment, const std::string& id) {
  for (std::size_t i = 0; i < experiment.scopes.size(); ++i) {
    std::vector<const RecordedPlane*> planes;
    for (const Row& row : experiment.rows) {
      if (row.scope != experiment.scopes[i]) continue;
      for (const Field& field : row.fields) {
        if (const Record* record = with_plane(field)) planes.push_back(&*record->plane);
      }
    }
    if (planes.empty()) continue;
    const std::vector<double> levels = plane_levels(planes);
    html.line(
        "<details class=\"part\" id=\"{}-planes-{}\"><summary>{} <small>{}</small></summary>"
        "<div class=\"tiles\">",
        id, i, scope_words(experiment.scopes[i]), plural(planes.size(), "plane"));
    for (const Row& row : experiment.rows) {
      if (row.scope != experiment.scopes[i]) continue;
      for (std::size_t j = 0; j < row.fields.size(); ++j) {
        const Record* record = with_plane(row.fields[j]);
        if (!record) continue;
        html.line("<figure><figcaption>{}, {} <small>seeds {}, {}</small></figcaption>",
                  cell_name(experiment, row.cell), escaped(experiment.methods[j]), record->seeds[0],
                  record->seeds[1]);
        html.add(plane_chart(*record->plane, levels,
                             "The loss on the plane through A, B and B aligned", Medium::page));
        html.line("<p class=\"small soft\">{}</p></figure>", places_told(*record));
      }
    }
    html.line("</div></details>");
  }
}

}  // namespace regauge::connect
