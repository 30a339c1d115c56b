#include <fmt/format.h>

#include "action/moved_model.h"
#include "align/match/act_with_norms.h"
#include "align/match/stream_match.h"
#include "align/match/unit_match.h"
#include "align/towers.h"
#include "gauge_descent.h"
#include "numerics/dense.h"
#include "numerics/nested.h"
#include "regauge/align/align.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

// The maps of one attention layer.
struct AttentionMaps {
  Matrix<double> q, k, v, o;

  AttentionMaps(const Parameters<double>& layer, const std::string& at)
      : q(layer.at(at + ".q.weight")),
        k(layer.at(at + ".k.weight")),
        v(layer.at(at + ".v.weight")),
        o(layer.at(at + ".o.weight")) {}

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

// What stage one compares: keys centred, and biases as one more row where the function sees them.
// Without rotary positions softmax does not see a key's bias; behind an output bias that of a value
// is a matter of coordinates.
AttentionMaps with_biases(const Attention& shape, const Parameters<double>& layer,
                          const std::string& at) {
  AttentionMaps maps(layer, at);
  maps.k.rowwise() -= maps.k.colwise().mean().eval();
  const auto append = [&](const char* name, Matrix<double>& map) {
    const auto bias = layer.find(at + name);
    if (bias == layer.end()) return;
    map.conservativeResize(map.rows() + 1, Eigen::NoChange);
    map.bottomRows(1) = bias->second;
  };
  append(".q.bias", maps.q);
  if (shape.positions == Positions::rotary) append(".k.bias", maps.k);
  if (!layer.contains(at + ".o.bias")) append(".v.bias", maps.v);
  return maps;
}

// <X Y^T, X' Y'^T> without forming either.
template <class X, class Y, class X2, class Y2>
double inner(const X& x, const Y& y, const X2& x2, const Y2& y2) {
  return (x.transpose() * x2).cwiseProduct(y.transpose() * y2).sum();
}

// -|M_B - M_A|^2 - |N_B - N_A|^2 of every query head of B and of A: M = Q K^T, N = U O.
Matrix<double> head_similarity(const Attention& shape, const AttentionMaps& a,
                               const AttentionMaps& b) {
  const auto group = shape.group();
  const auto dk = shape.qk_width, dv = shape.v_width;
  const auto product = [&](const AttentionMaps& x, std::int64_t i, const AttentionMaps& y,
                           std::int64_t j) {
    return inner(x.query(i, dk), x.key(i / group, dk), y.query(j, dk), y.key(j / group, dk)) +
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
BlockMap<double> fit_gauge(const Attention& shape, const Space& space,
                           const BlockMap<double>& heads, const AttentionMaps& a,
                           const AttentionMaps& b, bool qk, bool compact) {
  const auto group = shape.group();
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

class TwoStage {
 public:
  TwoStage(const Symmetry& symmetry, const ReadTensor& a, const ReadTensor& b,
           const AlignOptions& options, Progress& progress)
      : symmetry_(symmetry),
        shape_(symmetry.architecture),
        options_(options),
        progress_(progress),
        a_(a, symmetry, form(a)),
        b_(b, symmetry, form(b)),
        norms_(encoder_norm<double>(shape_, b_)) {}

  Alignment run() {
    Alignment result;
    result.report = {{"method", "two_stage"}, {"layers", nlohmann::json::array()}};
    if (moves_stream()) result.report["stream"] = match_stream();
    progress_.start("matching heads", shape_.layers);
    for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
      result.report["layers"].push_back(match_layer(layer));
      progress_.advance(1);
    }
    progress_.finish();
    result.a_from_b = between_models(symmetry_, a_.element(), found_, b_.element());
    return result;
  }

 private:
  bool moves_stream() const {
    const Space* stream = symmetry_.find_space("residual");
    return options_.stream != StreamMap::none && stream != nullptr &&
           options_.scope.contains(*stream);
  }

  // Files are compared as they are, and folded where the stream moves.
  Element form(const ReadTensor& model) const {
    if (!moves_stream()) return {};
    return options_.scope.restrict(symmetry_, fold_element(symmetry_, model, {}, progress_));
  }

  // What was done.
  std::string match_stream() {
    StreamMatch<double> match(symmetry_);
    const Parameters<double> a = a_.layer(-1);
    Parameters<double> b = b_.layer(-1);
    Element tables = match_table_stream(symmetry_, options_.scope, a, b);
    act_on_layer(symmetry_, tables, -1, b);
    match.add(a, b);
    double value = 0;
    found_ =
        options_.stream == StreamMap::permutation ? match.solve_permutation() : match.solve(value);
    found_.maps.merge(tables.maps);
    return std::string(found_.maps.empty() ? "pinned" : stream_map_name(options_.stream));
  }

  nlohmann::json match_layer(std::int64_t layer) {
    const Attention& shape = shape_.layer(layer).attention;
    const std::string at = fmt::format("layers.{}.attn", layer);
    const Space* heads = symmetry_.find_space(at + ".heads");
    const Parameters<double> a = a_.layer(layer);
    Parameters<double> b = b_.layer(layer);
    act_with_norms(symmetry_, found_, layer, norms_, b);
    BlockMap<double> places(shape.heads, 1);
    const Matrix<double> similarity =
        head_similarity(shape, with_biases(shape, a, at), with_biases(shape, b, at));
    Element step;
    // Heads that share another layer's table went with those.
    const bool moves = heads != nullptr && heads->shuffle != Shuffle::none;
    if (moves && options_.scope.contains(*heads)) {
      const auto given = options_.heads.find(layer);
      const Matrix<double> groups = Matrix<double>::Zero(shape.kv_heads, shape.kv_heads);
      places = BlockMap<double>(
          heads->count, 1,
          given != options_.heads.end() ? given->second : assign_nested(similarity, groups).target,
          {});
      step.maps[heads->name] = places;
    }
    const AttentionMaps in_a(a, at), in_b(b, at);
    for (const bool qk : {true, false}) {
      const Space* space = symmetry_.find_space(at + (qk ? ".qk" : ".vo"));
      if (space == nullptr || !options_.scope.contains(*space)) continue;  // behind a QK-norm
      step.maps[space->name] = fit_gauge(shape, *space, places, in_a, in_b, qk, options_.compact);
    }
    if (options_.neurons) step.maps.merge(match_neurons(layer, a, b).maps);
    compose_onto(symmetry_, step, found_);
    double cost = 0;
    std::vector<std::int64_t> targets;
    for (std::int64_t i = 0; i < shape.heads; ++i) {
      cost -= similarity(i, places.target(i));
      targets.push_back(places.target(i));
    }
    return {{"heads", targets}, {"cost", cost}};
  }

  Element match_neurons(std::int64_t layer, const Parameters<double>& a,
                        const Parameters<double>& b) const {
    Element step;
    const Space* neurons = symmetry_.find_space(fmt::format("layers.{}.ffn.neurons", layer));
    if (neurons == nullptr || !options_.scope.contains(*neurons)) return step;
    step.maps[neurons->name] = match_units(symmetry_, *neurons, a, b);
    return step;
  }

  const Symmetry& symmetry_;
  const Architecture& shape_;
  const AlignOptions& options_;
  Progress& progress_;
  MovedModel a_, b_;
  Parameters<double> norms_;  // of B's form, for layers that do not hold them
  Element found_;             // from b's form towards a's
};

}  // namespace

// theory.md section 6: our reconstruction of the published attention matcher. Stage 1 does not see
// what distinguishes rotary heads; the stream and the neurons stay as they are unless asked for.
Alignment align_two_stage(const Symmetry& symmetry, const ReadTensor& a, const ReadTensor& b,
                          const AlignOptions& options, Progress& progress) {
  if (!symmetry.architecture.beside.empty()) {
    return align_towers(align_two_stage, symmetry, a, b, options, progress);
  }
  for (const auto& kind : symmetry.architecture.kinds) {
    if (kind.attention.has_latents()) {
      throw UsageError("[align] two_stage matches heads that read the stream, and no latents");
    }
    if (kind.attention.value_norm) {
      throw UsageError(
          "[align] two_stage matches heads whose values are read as they are, and no norms of "
          "values");
    }
    if (kind.has_delta()) {
      throw UsageError("[align] two_stage matches the heads of attention, and no delta nets");
    }
  }
  return TwoStage(symmetry, a, b, options, progress).run();
}

}  // namespace regauge
