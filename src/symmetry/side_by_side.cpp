#include "side_by_side.h"

#include "index.h"

namespace regauge {
namespace {

// Gives everything in a tower's symmetry the name that it has among all.
class Renaming {
 public:
  explicit Renaming(const Tower& tower) : tower_(tower) {}

  void add(Symmetry&& part, Symmetry& all) const {
    for (Space& space : part.spaces) {
      for (auto* name : {&space.name, &space.follows, &space.lift, &space.exchanged_by}) {
        rename(*name);
      }
      all.spaces.push_back(std::move(space));
    }
    for (Shift& shift : part.shifts) {
      rename(shift.name);
      rename(shift.axis);
      for (Effect& effect : shift.effects) {
        for (auto* name : {&effect.tensor, &effect.target, &effect.norm}) rename(*name);
      }
      all.shifts.push_back(std::move(shift));
    }
    for (auto& [name, axes] : part.tensors) {
      rename(axes.rows);
      rename(axes.cols);
      all.tensors.emplace(tower_.among_all(name), std::move(axes));
    }
    for (auto& [name, site] : part.norms) {
      for (auto* own : {&site.name, &site.bias, &site.writer}) rename(*own);
      for (Reader& reader : site.readers) {
        rename(reader.weight);
        rename(reader.bias);
      }
      all.norms.emplace(tower_.among_all(name), std::move(site));
    }
  }

 private:
  void rename(std::string& name) const {
    if (!name.empty()) name = tower_.among_all(name);
  }
  void rename(Axis& axis) const {
    for (AxisPart& part : axis) {
      for (auto* name : {&part.space, &part.lift, &part.through}) rename(*name);
    }
  }

  const Tower& tower_;
};

}  // namespace

Symmetry side_by_side(const Architecture& architecture, std::vector<Symmetry> parts) {
  Symmetry all;
  all.architecture = architecture;
  const std::vector<Tower> towers = towers_of(architecture);
  for (std::size_t i = 0; i < towers.size(); ++i) {
    Renaming(towers[i]).add(std::move(parts.at(i)), all);
  }
  all.index = std::make_shared<const SymmetryIndex>(index_of(all));
  return all;
}

Element among_all(const Tower& tower, const Element& own) {
  Element element;
  for (const auto& [name, map] : own.maps) element.maps[tower.among_all(name)] = map;
  for (const auto& [name, shift] : own.shifts) element.shifts[tower.among_all(name)] = shift;
  return element;
}

}  // namespace regauge
