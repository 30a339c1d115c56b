#include "index.h"

#include <set>

#include "arch/names.h"

namespace regauge {
namespace {

// Collects what acts on the tensors of one layer.
class LayerIndexer {
 public:
  LayerIndexer(const Symmetry& symmetry, const SymmetryIndex& index)
      : symmetry_(symmetry), index_(index) {}

  void add_tensor(const std::string& name) {
    add_axes(name);
    if (const auto found = index_.effects.find(name); found != index_.effects.end()) {
      for (const auto& [shift, effect] : found->second) {
        add_shift(shift);
        add_norm(symmetry_.shifts[shift].effects[effect].norm);
      }
    }
    if (const auto found = index_.given.find(name); found != index_.given.end()) {
      for (const std::size_t shift : found->second) add_shift(shift);
    }
  }

  void take(SymmetryIndex::Layer& layer) const {
    layer.spaces.assign(spaces_.begin(), spaces_.end());
    layer.shifts.assign(shifts_.begin(), shifts_.end());
  }

 private:
  void add_space(const std::string& name) {
    const auto found = index_.spaces.find(name);
    if (found == index_.spaces.end() || !spaces_.insert(found->second).second) return;
    add_space(symmetry_.spaces[found->second].follows);
    add_space(symmetry_.spaces[found->second].lift);
  }

  // A norm may belong to another layer; what shifts do to it is that layer's business.
  void add_norm(const std::string& name) {
    const auto site = symmetry_.norms.find(name);
    if (site == symmetry_.norms.end()) return;
    add_axes(site->second.gain());
    if (!site->second.bias.empty()) add_axes(site->second.bias);
  }

  void add_axes(const std::string& tensor) {
    if (!tensors_.insert(tensor).second) return;
    const TensorAxes& axes = symmetry_.tensors.at(tensor);
    add_axis(axes.rows);
    add_axis(axes.cols);
  }

  void add_axis(const Axis& axis) {
    for (const auto& part : axis) {
      add_space(part.space);
      add_space(part.lift);
      add_space(part.through);
      add_norm(part.through);
    }
  }

  void add_shift(std::size_t position) {
    if (shifts_.insert(position).second) add_axis(symmetry_.shifts[position].axis);
  }

  const Symmetry& symmetry_;
  const SymmetryIndex& index_;
  std::set<std::string> tensors_;
  std::set<std::size_t> spaces_, shifts_;
};

}  // namespace

bool layers_share_spaces(const Symmetry& symmetry) {
  for (std::int64_t layer = 0; layer < symmetry.architecture.layers; ++layer) {
    for (const std::size_t i : symmetry.layer(layer).spaces) {
      const Space& space = symmetry.spaces[i];
      const std::int64_t of = layer_of(space.name);
      if (space.category == Category::scales) return true;
      if (of >= 0 && of != layer && space.category != Category::norms) return true;
    }
  }
  return false;
}

SymmetryIndex index_of(const Symmetry& symmetry) {
  SymmetryIndex index;
  for (std::size_t i = 0; i < symmetry.spaces.size(); ++i) {
    const Space& space = symmetry.spaces[i];
    index.spaces.emplace(space.name, i);
    if (!space.follows.empty()) index.followers[space.follows].push_back(i);
    if (!space.lift.empty()) index.lifted[space.lift].push_back(i);
  }
  for (std::size_t i = 0; i < symmetry.shifts.size(); ++i) {
    const Shift& shift = symmetry.shifts[i];
    index.shifts.emplace(shift.name, i);
    for (const auto& part : shift.axis) {
      for (const auto* name : {&part.space, &part.lift}) {
        if (name->empty()) continue;
        auto& carried = index.carried[*name];
        if (carried.empty() || carried.back() != i) carried.push_back(i);
      }
    }
    for (std::size_t k = 0; k < shift.effects.size(); ++k) {
      const Effect& effect = shift.effects[k];
      index.effects[effect.tensor].emplace_back(i, k);
      if (!effect.target.empty()) index.given[effect.target].push_back(i);
    }
  }
  index.layers.resize(static_cast<std::size_t>(symmetry.architecture.all_layers()) + 1);
  for (const auto& spec : parameter_specs(symmetry.architecture)) {
    index.tensors.emplace(spec.name, spec);
    index.layers[static_cast<std::size_t>(spec.layer + 1)].tensors.push_back(spec);
  }
  for (auto& layer : index.layers) {
    LayerIndexer indexer(symmetry, index);
    for (const auto& spec : layer.tensors) indexer.add_tensor(spec.name);
    indexer.take(layer);
  }
  return index;
}

}  // namespace regauge
