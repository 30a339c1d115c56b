#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "regauge/arch/architecture.h"
#include "regauge/symmetry/table.h"

namespace regauge {

struct NameHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming)
  std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>()(name);
  }
};
template <class T>
using ByName = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;

// Where things are in a Symmetry, so that work on one layer need not look through all of them.
// Numbers are positions in its lists, ascending.
struct SymmetryIndex {
  struct Layer {
    std::vector<ParameterSpec> tensors;  // in the order of parameter_specs
    // What acts on these tensors, on the norms that they read and on their shifts.
    std::vector<std::size_t> spaces;
    std::vector<std::size_t> shifts;
  };
  ByName<std::size_t> spaces;
  ByName<std::size_t> shifts;
  ByName<std::vector<std::size_t>> followers;  // by the space that they follow
  ByName<ParameterSpec> tensors;
  // By the tensor that they act on: a shift and which of its effects.
  ByName<std::vector<std::pair<std::size_t, std::size_t>>> effects;
  ByName<std::vector<std::size_t>> given;  // by the bias that takes a constant: shifts
  std::vector<Layer> layers;               // embedding and head first
  // What else the map of a space moves: spaces that it lifts, and vectors of shifts.
  ByName<std::vector<std::size_t>> lifted, carried;
};

// The group of parameter changes that leave the function of an architecture alone, and how it acts:
// spaces with their groups, the axes that live in them, and the shifts.
struct Symmetry {
  Architecture architecture;
  std::vector<Space> spaces;  // leaders stand before their followers
  std::vector<Shift> shifts;
  std::map<std::string, TensorAxes> tensors;
  std::map<std::string, NormSite> norms;
  std::shared_ptr<const SymmetryIndex> index;  // of all the above, made by symmetry_of

  std::int64_t dimension() const;
  double log2_components() const;  // of what acts: members that change nothing count once
  const Space* find_space(std::string_view name) const;
  const Shift* find_shift(std::string_view name) const;
  // Of embedding and head for -1.
  const SymmetryIndex::Layer& layer(std::int64_t layer) const {
    return index->layers.at(static_cast<std::size_t>(layer + 1));
  }
};

// The coordinates of the tables of tokens, positions and types, where a map brings these into the
// stream; and those tables.
inline constexpr const char* kTableStream = "embed.residual";
inline constexpr std::array<const char*, 3> kStreamTables = {"embed.tokens", "embed.positions",
                                                             "embed.types"};

// The coordinates of a stream: "residual", or those of an encoder that has one of its own.
bool is_stream(std::string_view space);

// The entry of the fixed position table that a pinned tensor is read relative to.
double fixed_origin(const Architecture& architecture, std::string_view tensor, std::int64_t column);

// Exact for generic parameters; the norms' eps decides whether lengths are forgotten (eps = 0) or
// not.
Symmetry symmetry_of(const Architecture& architecture);

}  // namespace regauge
