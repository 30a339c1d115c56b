#include "qk_norm_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "numerics/nested.h"
#include "symmetry/procrustes.h"

namespace regauge {
namespace {

constexpr int kRefits = 8;
constexpr std::size_t kStarts = 4;

class NormedHeads {
 public:
  template <class Scalar>
  NormedHeads(const Symmetry& symmetry, std::int64_t layer, const Scope& scope,
              const Parameters<Scalar>& a, const Parameters<Scalar>& b)
      : shape_(symmetry.architecture.layer(layer).attention),
        at_(fmt::format("layers.{}.attn", layer)),
        heads_(*symmetry.find_space(at_ + ".heads")),
        turns_(*symmetry.find_space(at_ + ".turns")),
        exchange_(*symmetry.find_space(at_ + ".qk_gain")),
        may_shuffle_(heads_.shuffle != Shuffle::none && scope.contains(heads_)),
        may_exchange_(scope.contains(exchange_)),
        may_half_turn_(scope.contains(turns_)) {
    if (const Space* values = symmetry.find_space(at_ + ".vo")) {
      values_.emplace(symmetry, *values, a, b);
      may_turn_ = scope.contains(*values);
    }
    query_ = cross<Scalar>({".q.weight", ".q.bias"}, a, b);
    if (shape_.keys_as_values) {  // what heads gather has the coordinates of keys
      Matrix<Scalar> gathered = Matrix<Scalar>::Zero(query_.rows(), query_.cols());
      add_cross(b.at(at_ + ".o.weight"), a.at(at_ + ".o.weight"), 0, gathered);
      query_ += gathered.template cast<double>();
    }
    key_ = cross<Scalar>({".k.weight", ".k.bias"}, a, b);
    moduli_ = cross<Scalar>({".q_norm.gain", ".k_norm.gain"}, a, b);
    plain_ = Matrix<double>::Zero(shape_.heads, shape_.heads);
    if (a.contains(at_ + ".relative_bias")) plain_ = cross<Scalar>({".relative_bias"}, a, b);
    scale_a_ = sizes<Scalar>(a);
    scale_b_ = sizes<Scalar>(b);
  }

  Element run() const {
    Fit best;
    best.value = -std::numeric_limits<double>::infinity();
    for (const auto& start : starts()) {
      Fit fit = places_for(start);
      for (int round = 0; round < kRefits; ++round) {
        Fit next = places_for(exchange_for(fit));
        if (!(next.value > fit.value)) break;
        fit = std::move(next);
      }
      if (fit.value > best.value) best = std::move(fit);
    }
    return element(best);
  }

 private:
  struct GroupFit {
    std::vector<std::int64_t> inner;
    Matrix<double> half_turns;
    Matrix<double> turn;  // of the values
    double value = 0;
  };
  struct Fit {
    Matrix<double> exchange;
    std::vector<std::int64_t> outer;
    std::vector<GroupFit> groups;  // by kv head of B
    double value = 0;
  };

  std::int64_t group() const { return shape_.group(); }

  template <class Scalar>
  Matrix<double> cross(std::initializer_list<const char*> names, const Parameters<Scalar>& a,
                       const Parameters<Scalar>& b) const {
    Matrix<Scalar> sum;
    for (const char* name : names) {
      const auto found = a.find(at_ + name);
      if (found == a.end()) continue;
      if (sum.size() == 0) sum = Matrix<Scalar>::Zero(found->second.cols(), found->second.cols());
      add_cross(b.at(at_ + name), found->second, 1, sum);
    }
    return sum.template cast<double>();
  }

  template <class Scalar>
  Eigen::VectorXd sizes(const Parameters<Scalar>& model) const {
    Eigen::VectorXd result(shape_.kv_heads);
    const Matrix<double> keys = model.at(at_ + ".k.weight").template cast<double>();
    for (std::int64_t i = 0; i < shape_.kv_heads; ++i) {
      result(i) = keys.middleCols(i * shape_.qk_width, shape_.qk_width).norm() + 1e-300;
    }
    return result;
  }

  Matrix<double> block(const Matrix<double>& of, std::int64_t i, std::int64_t j) const {
    return of.block(i * shape_.qk_width, j * shape_.qk_width, shape_.qk_width, shape_.qk_width);
  }

  BlockFit best_exchange(const Matrix<double>& cross) const {
    if (may_exchange_) return fit_exchange(std::get<GainExchange>(exchange_.group), cross, moduli_);
    return {Matrix<double>::Identity(cross.rows(), cross.cols()), cross.trace() + moduli_.trace()};
  }

  // Nothing, and what the most alike keys say.
  std::vector<Matrix<double>> starts() const {
    std::vector<std::pair<double, Matrix<double>>> found;
    for (std::int64_t i = 0; i < shape_.kv_heads; ++i) {
      for (std::int64_t j = 0; j < shape_.kv_heads; ++j) {
        if (!may_shuffle_ && i != j) continue;
        const double scale = scale_b_(i) * scale_a_(j);
        BlockFit fit = best_exchange(block(key_, i, j) / scale);
        found.emplace_back(fit.value, std::move(fit.block));
      }
    }
    std::sort(found.begin(), found.end(),
              [](const auto& x, const auto& y) { return x.first > y.first; });
    std::vector<Matrix<double>> result = {
        Matrix<double>::Identity(shape_.qk_width, shape_.qk_width)};
    for (std::size_t i = 0; i < std::min(kStarts, found.size()); ++i) {
      result.push_back(found[i].second);
    }
    return result;
  }

  BlockFit turn(const Matrix<double>& cross) const {
    if (may_turn_) return fit_block(values_->space().group, cross);
    return {Matrix<double>::Identity(cross.rows(), cross.cols()), cross.trace()};
  }

  Matrix<double> half_turns(const Matrix<double>& cross, const Matrix<double>& exchange) const {
    if (!may_half_turn_) return Matrix<double>::Identity(cross.rows(), cross.cols());
    return half_turns_procrustes(std::get<HalfTurns>(turns_.group), cross, exchange);
  }

  // The half turns of a head and the places of its queries, by turns from those of the keys alone.
  GroupFit fit_group(std::int64_t i, std::int64_t j, const Matrix<double>& exchange) const {
    const auto size = group();
    GroupFit best;
    Matrix<double> known = block(key_, i, j);
    for (int round = 0; round < kRefits; ++round) {
      GroupFit fit;
      fit.half_turns = half_turns(known, exchange);
      const Matrix<double> turned = fit.half_turns * exchange;
      Matrix<double> worth = plain_.block(i * size, j * size, size, size);
      for (std::int64_t s = 0; s < size; ++s) {
        for (std::int64_t t = 0; t < size; ++t) {
          worth(s, t) += block(query_, i * size + s, j * size + t).cwiseProduct(turned).sum();
          if (size > 1 && values_) {
            worth(s, t) += turn(values_->query(i * size + s, j * size + t)).value;
          }
        }
      }
      for (std::int64_t s = 0; s < size; ++s) fit.inner.push_back(s);
      if (may_shuffle_) fit.inner = assign_rows(worth).target;
      known = of_maps(i, j, fit.inner);
      fit.half_turns = half_turns(known, exchange);
      fit.value = known.cwiseProduct(fit.half_turns * exchange).sum();
      Matrix<double> of_values;
      if (values_) of_values = values_->shared(i, j);
      for (std::int64_t s = 0; s < size; ++s) {
        const auto t = fit.inner[static_cast<std::size_t>(s)];
        fit.value += plain_(i * size + s, j * size + t);
        if (values_) of_values += values_->query(i * size + s, j * size + t);
      }
      if (values_) {
        BlockFit value_turn = turn(of_values);
        fit.value += value_turn.value;
        fit.turn = std::move(value_turn.block);
      }
      if (!best.inner.empty() && !(fit.value > best.value)) break;
      best = std::move(fit);
      if (size == 1) break;
    }
    return best;
  }

  // What keys and queries of kv head i of B and those of j of A have in common.
  Matrix<double> of_maps(std::int64_t i, std::int64_t j,
                         const std::vector<std::int64_t>& inner) const {
    Matrix<double> sum = block(key_, i, j);
    for (std::int64_t s = 0; s < group(); ++s) {
      sum += block(query_, i * group() + s, j * group() + inner[static_cast<std::size_t>(s)]);
    }
    return sum;
  }

  Fit places_for(const Matrix<double>& exchange) const {
    const auto groups = shape_.kv_heads;
    Fit fit{exchange, {}, {}, moduli_.cwiseProduct(exchange.cwiseAbs()).sum()};
    std::vector<GroupFit> all(static_cast<std::size_t>(groups * groups));
    Matrix<double> worth = Matrix<double>::Zero(groups, groups);
    for (std::int64_t i = 0; i < groups; ++i) {
      fit.outer.push_back(i);
      for (std::int64_t j = 0; j < groups; ++j) {
        if (!may_shuffle_ && i != j) continue;
        auto& one = all[static_cast<std::size_t>(i * groups + j)] = fit_group(i, j, exchange);
        worth(i, j) = one.value;
      }
    }
    if (may_shuffle_) fit.outer = assign_rows(worth).target;
    for (std::int64_t i = 0; i < groups; ++i) {
      const auto to = fit.outer[static_cast<std::size_t>(i)];
      fit.groups.push_back(all[static_cast<std::size_t>(i * groups + to)]);
      fit.value += fit.groups.back().value;
    }
    return fit;
  }

  Matrix<double> exchange_for(const Fit& fit) const {
    if (!may_exchange_) return fit.exchange;
    std::vector<Matrix<double>> crosses;
    for (std::int64_t i = 0; i < shape_.kv_heads; ++i) {
      const GroupFit& one = fit.groups[static_cast<std::size_t>(i)];
      crosses.push_back(of_maps(i, fit.outer[static_cast<std::size_t>(i)], one.inner));
    }
    return exchange_procrustes(std::get<GainExchange>(exchange_.group),
                               std::get<HalfTurns>(turns_.group), crosses, moduli_)
        .exchange;
  }

  Element element(const Fit& fit) const {
    std::vector<std::int64_t> places;
    Matrix<double> half_turns(turns_.size(), turns_.width());
    Matrix<double> turns(values_ ? values_->space().size() : 0, shape_.v_width);
    for (std::int64_t i = 0; i < shape_.kv_heads; ++i) {
      const GroupFit& one = fit.groups[static_cast<std::size_t>(i)];
      for (const auto s : one.inner) {
        places.push_back(fit.outer[static_cast<std::size_t>(i)] * group() + s);
      }
      half_turns.middleRows(i * turns_.width(), turns_.width()) = one.half_turns;
      if (values_) turns.middleRows(i * shape_.v_width, shape_.v_width) = one.turn;
    }
    Element found;
    const BlockMap<double> map(shape_.heads, 1, places, {});
    if (may_shuffle_) found.maps[heads_.name] = map;
    found.maps[turns_.name] = BlockMap<double>(turns_.count, turns_.width(),
                                               turns_.following(map).permutation(), half_turns);
    if (values_) {
      const Space& space = values_->space();
      found.maps[space.name] =
          BlockMap<double>(space.count, shape_.v_width, space.following(map).permutation(), turns);
    }
    found.maps[exchange_.name] = BlockMap<double>(1, shape_.qk_width, {}, fit.exchange);
    return found;
  }

  const Attention& shape_;
  std::string at_;
  const Space& heads_;
  const Space& turns_;
  const Space& exchange_;
  std::optional<HeadCross> values_;  // none where keys are values
  bool may_shuffle_, may_exchange_, may_half_turn_, may_turn_ = false;
  Matrix<double> query_, key_, moduli_, plain_;
  Eigen::VectorXd scale_a_, scale_b_;
};

}  // namespace

BlockFit fit_exchange(const GainExchange& group, const Matrix<double>& cross,
                      const Matrix<double>& moduli) {
  Matrix<double> best = exchange_procrustes(group, cross, moduli);
  const double value = cross.cwiseProduct(best).sum() + moduli.cwiseProduct(best.cwiseAbs()).sum();
  return {std::move(best), value};
}

template <class Scalar>
Element match_heads_behind_norm(const Symmetry& symmetry, std::int64_t layer, const Scope& scope,
                                const Parameters<Scalar>& a, const Parameters<Scalar>& b) {
  return NormedHeads(symmetry, layer, scope, a, b).run();
}

template Element match_heads_behind_norm(const Symmetry&, std::int64_t, const Scope&,
                                         const Parameters<float>&, const Parameters<float>&);
template Element match_heads_behind_norm(const Symmetry&, std::int64_t, const Scope&,
                                         const Parameters<double>&, const Parameters<double>&);

}  // namespace regauge
