#include "head_match.h"

#include <fmt/format.h>

#include <set>

#include "gauge_fit.h"
#include "numerics/nested.h"
#include "qk_norm_match.h"

namespace regauge {
namespace {

constexpr int kRounds = 6;  // of query heads and gauge in turn, inside one group

// One kv head of B in the place of one of A, with its query heads.
struct GroupFit {
  std::vector<std::int64_t> inner;    // query head s of the group goes to inner[s]
  std::vector<Matrix<double>> turns;  // by gauge
  double value = 0;
};

class HeadMatcher {
 public:
  HeadMatcher(const Space& heads, std::vector<HeadCross> gauges, Matrix<double> plain,
              bool may_shuffle, std::vector<bool> may_turn)
      : heads_(heads),
        gauges_(std::move(gauges)),
        plain_(std::move(plain)),
        may_shuffle_(may_shuffle),
        may_turn_(std::move(may_turn)) {}

  Element run() const {
    const auto groups = heads_.count / heads_.group_size;
    std::vector<GroupFit> fits(static_cast<std::size_t>(groups * groups));
    Matrix<double> worth = Matrix<double>::Zero(groups, groups);
    for (std::int64_t i = 0; i < groups; ++i) {
      for (std::int64_t j = 0; j < groups; ++j) {
        if (!may_shuffle_ && i != j) continue;
        auto& fit = fits[static_cast<std::size_t>(i * groups + j)] = fit_group(i, j);
        worth(i, j) = fit.value;
      }
    }
    std::vector<std::int64_t> outer(static_cast<std::size_t>(groups));
    for (std::int64_t i = 0; i < groups; ++i) outer[static_cast<std::size_t>(i)] = i;
    if (may_shuffle_) outer = assign_rows(worth).target;

    std::vector<std::int64_t> places;
    std::vector<Matrix<double>> blocks;
    for (const auto& gauge : gauges_)
      blocks.emplace_back(gauge.space().size(), gauge.space().width());
    for (std::int64_t i = 0; i < groups; ++i) {
      const auto to = outer[static_cast<std::size_t>(i)];
      const GroupFit& fit = fits[static_cast<std::size_t>(i * groups + to)];
      for (const auto s : fit.inner) places.push_back(to * heads_.group_size + s);
      for (std::size_t g = 0; g < gauges_.size(); ++g) {
        const auto width = gauges_[g].space().width();
        blocks[g].middleRows(i * width, width) = fit.turns[g];
      }
    }
    Element found;
    const BlockMap<double> map(heads_.count, 1, places, {});
    if (may_shuffle_) found.maps[heads_.name] = map;
    for (std::size_t g = 0; g < gauges_.size(); ++g) {
      const Space& space = gauges_[g].space();
      found.maps[space.name] = BlockMap<double>(space.count, space.width(),
                                                space.following(map).permutation(), blocks[g]);
    }
    return found;
  }

 private:
  Matrix<double> identity(std::size_t g) const {
    const auto width = gauges_[g].space().width();
    return Matrix<double>::Identity(width, width);
  }

  BlockFit turn(std::size_t g, const Matrix<double>& cross) const {
    if (may_turn_[g]) return fit_block(gauges_[g].space().group, cross);
    return {identity(g), cross.trace()};
  }

  double best_turn_value(std::size_t g, const Matrix<double>& cross) const {
    return may_turn_[g] ? best_value(gauges_[g].space().group, cross) : cross.trace();
  }

  // The best rotations for given inner places.
  GroupFit with_turns(std::int64_t i, std::int64_t j, std::vector<std::int64_t> inner) const {
    GroupFit fit{std::move(inner), {}, 0};
    const auto size = heads_.group_size;
    for (std::size_t g = 0; g < gauges_.size(); ++g) {
      Matrix<double> cross = gauges_[g].shared(i, j);
      for (std::int64_t s = 0; s < size; ++s) {
        cross += gauges_[g].query(i * size + s, j * size + fit.inner[static_cast<std::size_t>(s)]);
      }
      BlockFit best = turn(g, cross);
      fit.value += best.value;
      fit.turns.push_back(std::move(best.block));
    }
    for (std::int64_t s = 0; s < size; ++s) {
      fit.value += plain_(i * size + s, j * size + fit.inner[static_cast<std::size_t>(s)]);
    }
    return fit;
  }

  // Inner places by what each pair of query heads is worth under the given rotations, or under
  // those of its own.
  std::vector<std::int64_t> inner_places(std::int64_t i, std::int64_t j,
                                         const std::vector<Matrix<double>>* turns) const {
    const auto size = heads_.group_size;
    Matrix<double> worth = plain_.block(i * size, j * size, size, size);
    for (std::int64_t s = 0; s < size; ++s) {
      for (std::int64_t t = 0; t < size; ++t) {
        for (std::size_t g = 0; g < gauges_.size(); ++g) {
          const Matrix<double> cross = gauges_[g].query(i * size + s, j * size + t);
          worth(s, t) +=
              turns == nullptr ? best_turn_value(g, cross) : cross.cwiseProduct((*turns)[g]).sum();
        }
      }
    }
    return assign_rows(worth).target;
  }

  GroupFit fit_group(std::int64_t i, std::int64_t j) const {
    if (heads_.group_size == 1) return with_turns(i, j, {0});
    std::vector<std::int64_t> still(static_cast<std::size_t>(heads_.group_size));
    for (std::size_t s = 0; s < still.size(); ++s) still[s] = static_cast<std::int64_t>(s);
    if (!may_shuffle_) return with_turns(i, j, still);
    // Two starts: rotations from what the group shares, and places from each head alone.
    std::vector<Matrix<double>> shared;
    for (std::size_t g = 0; g < gauges_.size(); ++g) {
      shared.push_back(turn(g, gauges_[g].shared(i, j)).block);
    }
    GroupFit best;
    std::set<std::vector<std::int64_t>> tried;
    for (const auto* turns : {&shared, static_cast<decltype(&shared)>(nullptr)}) {
      auto inner = inner_places(i, j, turns);
      for (int round = 0; round < kRounds && tried.insert(inner).second; ++round) {
        GroupFit fit = with_turns(i, j, inner);
        inner = inner_places(i, j, &fit.turns);
        if (best.inner.empty() || fit.value > best.value) best = std::move(fit);
      }
    }
    return best;
  }

  const Space& heads_;
  std::vector<HeadCross> gauges_;
  Matrix<double> plain_;  // [h, h], what no rotation reaches
  bool may_shuffle_;
  std::vector<bool> may_turn_;
};

// <A, B> between all coordinates of an axis.
template <class Scalar>
Matrix<double> cross_of(const Matrix<Scalar>& b, const Matrix<Scalar>& a, int axis) {
  const auto size = axis == 0 ? a.rows() : a.cols();
  Matrix<Scalar> cross = Matrix<Scalar>::Zero(size, size);
  add_cross(b, a, axis, cross);
  return cross.template cast<double>();
}

}  // namespace

template <class Scalar>
void HeadMatch::add(std::int64_t layer, const Parameters<Scalar>& a, const Parameters<Scalar>& b) {
  const bool joint = symmetry_.architecture.layer(layer).attention.qk_norm == QkNorm::joint;
  for (const char* name : {joint ? "qk_gain" : "qk", "vo"}) {
    const Space& space = *symmetry_.find_space(fmt::format("layers.{}.attn.{}", layer, name));
    gauges_.emplace_back(symmetry_, space, a, b);
    may_turn_.push_back(scope_.contains(space));
  }
  Matrix<Scalar> plain = Matrix<Scalar>::Zero(heads_.count, heads_.count);
  const Space* rotary = symmetry_.find_space(fmt::format("layers.{}.attn.rotary", layer));
  for_axes(symmetry_, a, heads_.name, [&](const std::string& name, int axis, const AxisPart& part) {
    if (part.repeat == 1) return add_cross(b.at(name), a.at(name), axis, plain);
    rotary_.push_back({rotary, cross_of(b.at(name), a.at(name), axis), {}});
  });
  plain_ += plain.template cast<double>();
  if (rotary == nullptr) return;
  const std::string key = fmt::format("layers.{}.attn.k_rotary.weight", layer);
  rotary_.back().key = cross_of(b.at(key), a.at(key), 1);
}

Matrix<double> HeadMatch::SharedRotation::queries(std::int64_t i, std::int64_t j) const {
  const auto width = space->width();
  return all_queries.block(i * width, j * width, width, width);
}

Element HeadMatch::solve() && {
  for (const auto& rotary : rotary_) {
    for (std::int64_t i = 0; i < heads_.count; ++i) {
      for (std::int64_t j = 0; j < heads_.count; ++j) {
        plain_(i, j) += best_value(rotary.space->group, rotary.queries(i, j));
      }
    }
  }
  const bool may_shuffle = heads_.shuffle != Shuffle::none && scope_.contains(heads_);
  Element found =
      HeadMatcher(heads_, std::move(gauges_), std::move(plain_), may_shuffle, std::move(may_turn_))
          .run();
  const BlockMap<double> places = map_of(symmetry_, found, heads_);
  for (const auto& rotary : rotary_) {
    if (!scope_.contains(*rotary.space)) continue;
    Matrix<double> sum = rotary.key;
    for (std::int64_t i = 0; i < heads_.count; ++i) sum += rotary.queries(i, places.target(i));
    found.maps[rotary.space->name] =
        BlockMap<double>(1, rotary.space->width(), {}, fit_block(rotary.space->group, sum).block);
  }
  return found;
}

template void HeadMatch::add(std::int64_t, const Parameters<float>&, const Parameters<float>&);
template void HeadMatch::add(std::int64_t, const Parameters<double>&, const Parameters<double>&);

template <class Scalar>
Element match_heads(const Symmetry& symmetry, std::int64_t layer, const Scope& scope,
                    const Parameters<Scalar>& a, const Parameters<Scalar>& b) {
  if (symmetry.architecture.layer(layer).attention.qk_norm == QkNorm::heads) {
    return match_heads_behind_norm(symmetry, layer, scope, a, b);
  }
  const Space& gauge = *symmetry.find_space(fmt::format("layers.{}.attn.vo", layer));
  HeadMatch match(symmetry, scope, *symmetry.find_space(gauge.follows));
  match.add(layer, a, b);
  return std::move(match).solve();
}

template Element match_heads(const Symmetry&, std::int64_t, const Scope&, const Parameters<float>&,
                             const Parameters<float>&);
template Element match_heads(const Symmetry&, std::int64_t, const Scope&, const Parameters<double>&,
                             const Parameters<double>&);

}  // namespace regauge
