#include "towers.h"

#include <fmt/format.h>

#include "symmetry/side_by_side.h"

namespace regauge {
namespace {

// One tower of the file that a source reads.
struct TowerSource {
  TowerSource(const ParameterSource& whole, const Tower& tower)
      : model(tower_of(whole.model(), own_tower(whole, tower))),
        source(model, tower.architecture, tower.prefix.empty() ? whole.patches() : Patches()) {}

  // As the file declares it, which may be otherwise than it is read.
  static Tower own_tower(const ParameterSource& whole, const Tower& tower) {
    const auto own = towers_of(whole.model().architecture);
    return tower.prefix.empty() ? own.front() : own.back();
  }

  Model model;
  ParameterSource source;
};

// "beside: " in front of what is said of the model beside.
std::string said_of(const Tower& tower, const std::string& text) {
  return tower.prefix.empty() ? text : "beside: " + text;
}

}  // namespace

Nearest bring_towers_near(const Symmetry& symmetry, const ParameterSource& a,
                          const ParameterSource& b, Progress& progress, Doubt doubt) {
  Nearest all;
  for (const Tower& tower : towers_of(symmetry.architecture)) {
    const TowerSource of_a(a, tower), of_b(b, tower);
    Nearest part =
        bring_near(symmetry_of(tower.architecture), of_a.source, of_b.source, progress, doubt);
    Element moved = among_all(tower, part.a_from_b);
    all.a_from_b.maps.merge(moved.maps);
    all.a_from_b.shifts.merge(moved.shifts);
    for (Movement& movement : part.movements) {
      all.movements.push_back({said_of(tower, movement.what), std::move(movement.where)});
    }
    for (TensorResidual& residual : part.residuals) {
      residual.tensor = tower.among_all(residual.tensor);
      all.residuals.push_back(std::move(residual));
    }
    for (const auto& limit : part.limits) all.limits.push_back(said_of(tower, limit));
  }
  return all;
}

Canon canon_of_towers(const Symmetry& symmetry, const ParameterSource& source, Progress& progress) {
  Canon all;
  for (const Tower& tower : towers_of(symmetry.architecture)) {
    const TowerSource part(source, tower);
    Canon form = canon(symmetry_of(tower.architecture), part.source, progress);
    Element moved = among_all(tower, form.element);
    all.element.maps.merge(moved.maps);
    all.element.shifts.merge(moved.shifts);
    for (const auto& limit : form.limits) all.limits.push_back(said_of(tower, limit));
  }
  return all;
}

Diagnosis diagnose_towers(const Model& a, const Model& b, const Diff& found, Progress& progress) {
  Diagnosis all;
  if (found.residuals.empty()) return all;
  const auto towers = towers_of(a.architecture), of_b = towers_of(b.architecture);
  const auto joint = towers_of(found.architecture);
  bool certain = true;
  for (std::size_t i = 0; i < towers.size(); ++i) {
    const Model part_a = tower_of(a, towers[i]), part_b = tower_of(b, of_b[i]);
    Diff part;
    part.verdict = found.verdict;
    part.architecture = joint[i].architecture;
    for (const auto& [name, map] : found.a_from_b.maps) {
      if (const auto own = joint[i].own(name)) part.a_from_b.maps[*own] = map;
    }
    for (const auto& [name, shift] : found.a_from_b.shifts) {
      if (const auto own = joint[i].own(name)) part.a_from_b.shifts[*own] = shift;
    }
    for (const auto& residual : found.residuals) {
      const auto own = joint[i].own(residual.tensor);
      if (!own) continue;
      part.residuals.push_back(residual);
      part.residuals.back().tensor = *own;
    }
    if (all_agree(part.residuals)) continue;
    Diagnosis diagnosis = diagnose(part_a, part_b, part, progress);
    certain = certain && diagnosis.certain;
    all.moved = all.moved || diagnosis.moved;
    for (Cause& cause : diagnosis.causes) {
      cause.sentence = said_of(towers[i], cause.sentence);
      cause.repair.clear();
      for (auto& tensor : cause.tensors) tensor = towers[i].among_all(tensor);
      all.causes.push_back(std::move(cause));
    }
  }
  all.certain = certain && !all.causes.empty();
  return all;
}

}  // namespace regauge
