#pragma once

#include <set>
#include <string>
#include <variant>

#include "regauge/symmetry/block_map.h"
#include "regauge/symmetry/general_linear.h"
#include "regauge/symmetry/orthogonal.h"
#include "regauge/symmetry/rotary.h"
#include "regauge/symmetry/scaling.h"

namespace regauge {

// The group inside one block. A group that is listed here is run through the law suite by
// tests/symmetry/laws_test.cpp.
using BlockGroup =
    std::variant<Scaling, Orthogonal, GeneralLinear, RotaryCommutant, GainExchange, HalfTurns>;

// What a factor is about; `regauge act --only` takes these names.
enum class Category { residual, scales, norms, heads, latents, qk, vo, ffn, shifts };
std::string_view category_name(Category category);
Category category_from_name(std::string_view name);  // throws UsageError with the choices
std::string category_names(std::string_view separator, bool with_shifts = true);
std::set<Category> all_categories();

// How the blocks of a space may change places.
enum class Shuffle {
  none,
  symmetric,  // any permutation
  grouped,    // query heads: within their kv head's group, and whole groups; the groups of a
              // bundle among themselves, and whole bundles (experts of a routing group)
  follows     // as another space says: its permutation, or its permutation of groups
};

// Blocks as a member has them, or identities in their place: the same shape, drawn in no time.
enum class Blocks { random, identity };

// A coordinate system that tensor axes share, and the group that may act on it: `count` copies of a
// block group with a permutation of the blocks, G wr S (theory.md's basis changes). Its members are
// BlockMaps.
struct Space {
  std::string name = {};
  Category category = Category::residual;
  BlockGroup group = Scaling(Scaling::Kind::trivial);
  std::int64_t count = 1;
  Shuffle shuffle = Shuffle::none;
  std::int64_t group_size = 1;  // blocks of a group, for `grouped`
  std::int64_t bundles = 1;     // of groups, for `grouped`
  // The leader, for `follows`; for `grouped` whole groups go where its groups go, within which its
  // blocks and those of this space change places by themselves.
  std::string follows = {};
  // A leader whose blocks are signed permutations, up to lengths, leads coordinates: one number of
  // this space for each. `lift`: the heads to which the leader is lifted first, as in an AxisPart.
  std::string lift = {};
  // The space of an exchange of coordinates that acts behind this one, on every block. Where one
  // element follows another, its blocks are carried back through the exchange of the first.
  std::string exchanged_by = {};

  // Of all members the inverse is the transpose.
  bool is_orthogonal() const { return std::holds_alternative<Orthogonal>(group); }
  // A block is 1 or -1.
  bool is_signs() const {
    const auto* scaling = std::get_if<Scaling>(&group);
    return scaling != nullptr && scaling->kind() == Scaling::Kind::signs;
  }
  std::int64_t width() const;
  std::int64_t size() const { return count * width(); }
  std::int64_t groups() const { return count / group_size; }
  std::int64_t dimension() const;
  double log2_components() const;  // a follower's permutation counts with its leader
  std::string group_name() const;  // "GL(4)^2 wr S(2)"

  BlockMap<double> identity() const { return {count, width()}; }
  // A follower's map with identity blocks, moved as its leader says.
  BlockMap<double> following(const BlockMap<double>& leader) const;
  // For a follower `leader` is the leader's map, drawn before.
  BlockMap<double> random(Random& random, const BlockMap<double>* leader,
                          Blocks blocks = Blocks::random) const;
  // How far `map` is from being a member; infinite for a wrong shape or a permutation that is not
  // allowed.
  double violation(const BlockMap<double>& map, const BlockMap<double>* leader) const;
  // [count * width, width] of any numbers to the nearest algebra element, and its exponential.
  Matrix<double> project(const Matrix<double>& blocks) const;
  BlockMap<double> exponential(const Matrix<double>& algebra) const;
};

}  // namespace regauge
