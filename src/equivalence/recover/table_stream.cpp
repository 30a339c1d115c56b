#include "table_stream.h"

#include <fmt/format.h>

#include "stream.h"

namespace regauge {

Element recover_table_stream(const Symmetry& symmetry, const Parameters<double>& a,
                             const Parameters<double>& b, double rounding,
                             std::vector<std::string>& limits) {
  const std::string name = kTableStream;
  StreamCorrelation rows(symmetry, {}, name);
  for (const char* table : kStreamTables) {
    const auto in_a = a.find(table);
    if (in_a == a.end()) continue;
    rows.add(symmetry, Parameters<double>{{table, in_a->second}},
             Parameters<double>{{table, b.at(table)}});
  }
  const StreamFit fit = fit_stream(symmetry, rows, rounding);
  Element found;
  found.maps[name] = fit.map;
  if (fit.reversed) {
    found.maps[name + ".sign"] = BlockMap<double>(1, 1, {}, Matrix<double>::Constant(1, 1, -1));
  }
  if (!fit.known.is_all()) {
    limits.push_back(fmt::format("the tables determine {} of their {} coordinates",
                                 fit.known.dimension(), rows.cross.rows()));
  }
  return found;
}

}  // namespace regauge
