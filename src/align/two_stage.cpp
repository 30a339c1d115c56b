#include <fmt/format.h>

#include "gauge_descent.h"
#include "regauge/align/align.h"
#include "regauge/align/nested.h"

namespace regauge {
namespace {

// One attention layer of both models, as the files have it.
struct Attention {
  Matrix<double> q, k, v, o;

  Attention(const ReadTensor& read, const std::string& at)
      : q(read(at + ".q.weight")),
        k(read(at + ".k.weight")),
        v(read(at + ".v.weight")),
        o(read(at + ".o.weight")) {}

  auto query(std::int64_t head, std::int64_t width) const {
    return q.middleCols(head * width, width);
  }
  auto key(std::int64_t head, std::int64_t width) const {
    return k.middleCols(head * width, width);
  }
  auto value(std::int64_t head, std::int64_t width) const {
    return v.middleCols(head * width, width);
  }
  auto output(std::int64_t head, std::int64_t width) const {
    return o.middleRows(head * width, width);
  }
};

template <class Derived>
Matrix<double> centred(const Eigen::MatrixBase<Derived>& columns) {
  return columns.rowwise() - columns.colwise().mean();
}

// <X Y^T, X' Y'^T> without forming either.
template <class X, class Y, class X2, class Y2>
double inner(const X& x, const Y& y, const X2& x2, const Y2& y2) {
  return (x.transpose() * x2).cwiseProduct(y.transpose() * y2).sum();
}

// -|M_B - M_A|^2 - |N_B - N_A|^2 of every query head of B and of A: M = Q K^T with rows centred,
// N = U O.
Matrix<double> head_similarity(const Architecture& shape, const Attention& a, const Attention& b) {
  const auto group = shape.heads / shape.kv_heads;
  const auto dk = shape.qk_width, dv = shape.v_width;
  const auto product = [&](const Attention& x, std::int64_t i, const Attention& y, std::int64_t j) {
    return inner(x.query(i, dk), centred(x.key(i / group, dk)), y.query(j, dk),
                 centred(y.key(j / group, dk))) +
           inner(x.value(i / group, dv), x.output(i, dv).transpose(), y.value(j / group, dv),
                 y.output(j, dv).transpose());
  };
  Eigen::VectorXd size_a(shape.heads), size_b(shape.heads);
  for (std::int64_t i = 0; i < shape.heads; ++i) {
    size_a(i) = product(a, i, a, i);
    size_b(i) = product(b, i, b, i);
  }
  Matrix<double> similarity(shape.heads, shape.heads);
  for (std::int64_t i = 0; i < shape.heads; ++i) {
    for (std::int64_t j = 0; j < shape.heads; ++j) {
      similarity(i, j) = 2 * product(b, i, a, j) - size_b(i) - size_a(j);
    }
  }
  return similarity;
}

// The blocks of one gauge, given where the heads go.
BlockMap<double> fit_gauge(const Architecture& shape, const Space& space,
                           const BlockMap<double>& heads, const Attention& a, const Attention& b,
                           bool qk, bool compact) {
  const auto group = shape.heads / shape.kv_heads;
  const auto width = space.width();
  Matrix<double> blocks(space.size(), width);
  for (std::int64_t kv = 0; kv < space.count; ++kv) {
    const std::int64_t to = heads.target(kv * group) / group;
    TwoSides sides(width);
    if (qk) {
      sides.add_k(a.key(to, width), b.key(kv, width));
    } else {
      sides.add_q(a.value(to, width), b.value(kv, width));
    }
    for (std::int64_t i = kv * group; i < (kv + 1) * group; ++i) {
      if (qk) {
        sides.add_q(a.query(heads.target(i), width), b.query(i, width));
      } else {
        sides.add_k(a.output(heads.target(i), width).transpose(), b.output(i, width).transpose());
      }
    }
    blocks.middleRows(kv * width, width) =
        compact ? orthogonal_in_group(sides, space.group) : descend_in_group(sides, space.group);
  }
  const BlockMap<double> moved = space.following(heads);
  return {space.count, width, moved.permutation(), std::move(blocks)};
}

}  // namespace

// theory.md section 6: our reconstruction of the published attention matcher. Stage 1 does not see
// what distinguishes rotary heads; the stream and the neurons stay as they are.
Alignment align_two_stage(const Symmetry& symmetry, const ReadTensor& a, const ReadTensor& b,
                          const AlignOptions& options, Progress& progress) {
  const Architecture& shape = symmetry.architecture;
  Alignment result;
  result.report = {{"method", "two_stage"}, {"layers", nlohmann::json::array()}};
  progress.start("matching heads", shape.layers);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string at = fmt::format("layers.{}.attn", layer);
    const Space& heads = *symmetry.find_space(at + ".heads");
    const Attention in_a(a, at), in_b(b, at);
    BlockMap<double> places = heads.identity();
    const Matrix<double> similarity = head_similarity(shape, in_a, in_b);
    if (options.scope.contains(heads) && heads.shuffle != Shuffle::none) {
      places = BlockMap<double>(
          heads.count, 1,
          assign_nested(similarity, Matrix<double>::Zero(shape.kv_heads, shape.kv_heads)).target,
          {});
      result.a_from_b.maps[heads.name] = places;
    }
    for (const bool qk : {true, false}) {
      const Space* space = symmetry.find_space(at + (qk ? ".qk" : ".vo"));
      if (space == nullptr || !options.scope.contains(*space)) continue;  // behind a QK-norm
      result.a_from_b.maps[space->name] =
          fit_gauge(shape, *space, places, in_a, in_b, qk, options.compact);
    }
    double cost = 0;
    std::vector<std::int64_t> targets;
    for (std::int64_t i = 0; i < heads.count; ++i) {
      cost -= similarity(i, places.target(i));
      targets.push_back(places.target(i));
    }
    result.report["layers"].push_back({{"heads", targets}, {"cost", cost}});
    progress.advance(1);
  }
  progress.finish();
  return result;
}

}  // namespace regauge
