#include "towers.h"

#include "regauge/base/error.h"
#include "symmetry/side_by_side.h"

namespace regauge {

Alignment align_towers(decltype(align_weights)& by, const Symmetry& symmetry, const ReadTensor& a,
                       const ReadTensor& b, const AlignOptions& options, Progress& progress) {
  if (!options.heads.empty() || !options.scope.layers().empty()) {
    throw UsageError(
        "[align] of two models side by side neither layers nor where heads go can be chosen");
  }
  Alignment all;
  all.report = nlohmann::json::array();
  for (const Tower& tower : towers_of(symmetry.architecture)) {
    const auto reader = [&tower](const ReadTensor& whole) {
      return ReadTensor(
          [&tower, &whole](std::string_view name) { return whole.any(tower.among_all(name)); });
    };
    Alignment part = by(symmetry_of(tower.architecture), reader(a), reader(b), options, progress);
    Element moved = among_all(tower, part.a_from_b);
    all.a_from_b.maps.merge(moved.maps);
    all.a_from_b.shifts.merge(moved.shifts);
    all.report.push_back(std::move(part.report));
  }
  return all;
}

}  // namespace regauge
