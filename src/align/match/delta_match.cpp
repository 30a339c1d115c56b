#include "delta_match.h"

#include <fmt/format.h>

#include <numeric>

#include "cross.h"
#include "numerics/nested.h"
#include "qk_norm_match.h"

namespace regauge {
namespace {

// One key head of B in the place of one of A, with its value heads.
struct KeyHeadFit {
  std::vector<std::int64_t> inner;  // value head s of the group goes to inner[s]
  Matrix<double> keys;              // channels
  double value = 0;
};

class DeltaMatcher {
 public:
  template <class Scalar>
  DeltaMatcher(const Symmetry& symmetry, std::int64_t layer, const Scope& scope,
               const Parameters<Scalar>& a, const Parameters<Scalar>& b)
      : shape_(symmetry.architecture.layer(layer).delta),
        at_(fmt::format("layers.{}.delta", layer)),
        symmetry_(symmetry),
        may_shuffle_(scope.contains(space(".heads"))),
        may_order_keys_(scope.contains(space(".k"))),
        may_order_values_(scope.contains(space(".v"))) {
    const auto cross = [&](std::initializer_list<const char*> columns, const char* rows,
                           std::int64_t size) {
      Matrix<Scalar> sum = Matrix<Scalar>::Zero(size, size);
      for (const char* name : columns) add_cross(b.at(at_ + name), a.at(at_ + name), 1, sum);
      if (rows != nullptr) add_cross(b.at(at_ + rows), a.at(at_ + rows), 0, sum);
      return Matrix<double>(sum.template cast<double>());
    };
    q_ = cross({".q.weight", ".q_conv.weight"}, nullptr, shape_.keys());
    k_ = cross({".k.weight", ".k_conv.weight"}, nullptr, shape_.keys());
    v_ = cross({".v.weight", ".v_conv.weight"}, nullptr, shape_.values());
    z_ = cross({".z.weight"}, ".o.weight", shape_.values());
    heads_ = cross({".a.weight", ".a.bias", ".b.weight", ".decay"}, nullptr, shape_.value_heads);
  }

  Element run() const {
    const std::int64_t groups = shape_.key_heads, size = shape_.group();
    std::vector<KeyHeadFit> fits(static_cast<std::size_t>(groups * groups));
    Matrix<double> worth = Matrix<double>::Zero(groups, groups);
    for (std::int64_t i = 0; i < groups; ++i) {
      for (std::int64_t j = 0; j < groups; ++j) {
        if (!may_shuffle_ && i != j) continue;
        const auto& fit = fits[static_cast<std::size_t>(i * groups + j)] = fit_group(i, j);
        worth(i, j) = fit.value;
      }
    }
    std::vector<std::int64_t> outer(static_cast<std::size_t>(groups));
    std::iota(outer.begin(), outer.end(), 0);
    if (may_shuffle_) outer = assign_rows(worth).target;

    Element found;
    std::vector<std::int64_t> places;
    Matrix<double> keys(shape_.keys(), shape_.key_width);
    Matrix<double> values(shape_.values(), shape_.value_width);
    for (std::int64_t i = 0; i < groups; ++i) {
      const std::int64_t to = outer[static_cast<std::size_t>(i)];
      const KeyHeadFit& fit = fits[static_cast<std::size_t>(i * groups + to)];
      keys.middleRows(i * shape_.key_width, shape_.key_width) = fit.keys;
      for (std::int64_t s = 0; s < size; ++s) {
        const std::int64_t head = i * size + s;
        places.push_back(to * size + fit.inner[static_cast<std::size_t>(s)]);
        values.middleRows(head * shape_.value_width, shape_.value_width) =
            value_fit(head, places.back()).block;
      }
    }
    const BlockMap<double> heads(shape_.value_heads, 1, std::move(places), {});
    if (may_shuffle_) found.maps[at_ + ".heads"] = heads;
    for (auto& [name, blocks] : {std::pair{".k", &keys}, {".v", &values}}) {
      const Space& channels = space(name);
      found.maps[at_ + name] =
          BlockMap<double>(channels.count, channels.width(),
                           channels.following(heads).permutation(), std::move(*blocks));
    }
    add_query_signs(found);
    return found;
  }

 private:
  const Space& space(const char* name) const { return *symmetry_.find_space(at_ + name); }

  static Matrix<double> block(const Matrix<double>& of, std::int64_t i, std::int64_t j,
                              std::int64_t width) {
    return of.block(i * width, j * width, width, width);
  }

  static BlockFit fit(const Space& channels, bool may_order, const Matrix<double>& cross,
                      const Matrix<double>& moduli) {
    if (may_order) return fit_exchange(std::get<GainExchange>(channels.group), cross, moduli);
    return {Matrix<double>::Identity(cross.rows(), cross.cols()), (cross + moduli).trace()};
  }

  // z and o have no signs of their own.
  BlockFit value_fit(std::int64_t i, std::int64_t j) const {
    return fit(space(".v"), may_order_values_, block(v_, i, j, shape_.value_width),
               block(z_, i, j, shape_.value_width));
  }

  KeyHeadFit fit_group(std::int64_t i, std::int64_t j) const {
    const std::int64_t size = shape_.group();
    Matrix<double> worth(size, size);
    for (std::int64_t s = 0; s < size; ++s) {
      for (std::int64_t t = 0; t < size; ++t) {
        const std::int64_t from = i * size + s, to = j * size + t;
        const bool counts = may_shuffle_ || s == t;
        worth(s, t) = counts ? value_fit(from, to).value + heads_(from, to) : 0;
      }
    }
    KeyHeadFit result;
    result.inner.resize(static_cast<std::size_t>(size));
    std::iota(result.inner.begin(), result.inner.end(), 0);
    if (may_shuffle_) result.inner = assign_rows(worth).target;
    for (std::int64_t s = 0; s < size; ++s) {
      result.value += worth(s, result.inner[static_cast<std::size_t>(s)]);
    }
    // A channel of q takes its sign by itself.
    const Matrix<double> q = block(q_, i, j, shape_.key_width).cwiseAbs();
    BlockFit keys = fit(space(".k"), may_order_keys_, block(k_, i, j, shape_.key_width), q);
    result.keys = std::move(keys.block);
    result.value += keys.value;
    return result;
  }

  void add_query_signs(Element& found) const {
    const Space& queries = space(".q");
    const BlockMap<double> places = map_of(symmetry_, found, queries);
    Matrix<double> signs(queries.count, 1);
    for (std::int64_t i = 0; i < queries.count; ++i) {
      signs(i, 0) = q_(i, places.target(i)) < 0 && may_order_keys_ ? -1 : 1;
    }
    found.maps[queries.name] =
        BlockMap<double>(queries.count, 1, places.permutation(), std::move(signs));
  }

  const DeltaNet& shape_;
  std::string at_;
  const Symmetry& symmetry_;
  bool may_shuffle_, may_order_keys_, may_order_values_;
  Matrix<double> q_, k_, v_, z_;  // how B's channels meet A's
  Matrix<double> heads_;          // and its heads beside them
};

}  // namespace

template <class Scalar>
Element match_delta_net(const Symmetry& symmetry, std::int64_t layer, const Scope& scope,
                        const Parameters<Scalar>& a, const Parameters<Scalar>& b) {
  return DeltaMatcher(symmetry, layer, scope, a, b).run();
}
template Element match_delta_net(const Symmetry&, std::int64_t, const Scope&,
                                 const Parameters<float>&, const Parameters<float>&);
template Element match_delta_net(const Symmetry&, std::int64_t, const Scope&,
                                 const Parameters<double>&, const Parameters<double>&);

}  // namespace regauge
