#include "regauge/equivalence/canon.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "action/balance.h"
#include "action/moved_model.h"
#include "action/standard_form.h"
#include "action/unit_lengths.h"
#include "arch/reading.h"
#include "base/jobs.h"
#include "canon_steps.h"
#include "equivalence/rounding.h"
#include "equivalence/stream_vectors.h"
#include "equivalence/towers/towers.h"
#include "numerics/dense.h"
#include "numerics/polar.h"
#include "regauge/equivalence/compare.h"
#include "sketch.h"
#include "symmetry/index.h"

namespace regauge {
namespace {

constexpr double kUndetermined = 1e-6;

// Nothing changes places along this axis: tokens, positions, classes, and what is in its places by
// now, the coordinates of tables that a map reads.
bool is_labelled(const Symmetry& symmetry, const Space& stream, const Axis& axis) {
  const bool placed = stream.name != kTableStream && symmetry.find_space(kTableStream) != nullptr;
  return std::all_of(axis.begin(), axis.end(), [&](const AxisPart& part) {
    const Category category = symmetry.find_space(part.space)->category;
    return category == Category::scales ||
           (placed && (part.space.starts_with(kTableStream) || part.space == "embed.norm"));
  });
}

// What embedding and head say of a stream's coordinates, each tensor in units of its size.
Matrix<double> stream_sketch(const Symmetry& symmetry, const Space& stream,
                             const Parameters<double>& tensors, std::int64_t width) {
  const auto size = stream.size();
  Matrix<double> sum = Matrix<double>::Zero(size, width);
  for (const auto& [name, tensor] : tensors) {
    if (tensor.rows() == 1) continue;
    const TensorAxes& axes = symmetry.tensors.at(name);
    for (const int axis : {0, 1}) {
      for (const auto& part : axis == 0 ? axes.rows : axes.cols) {
        if (part.space != stream.name || part.take != AxisPart::Take::whole) continue;
        if (!is_labelled(symmetry, stream, axis == 0 ? axes.cols : axes.rows)) continue;
        const Matrix<double> rows = stream_vectors(symmetry, name, axis, tensor);
        if (rows.norm() > 0) sum += sketch(rows, width) / rows.norm();
      }
    }
  }
  return sum;
}

// The part of m beside the directions that a rotation must leave alone, and these as they are.
Matrix<double> fixing(const Orthogonal& group, const Matrix<double>& m) {
  const Matrix<double>& fixed = group.fixed();
  Matrix<double> rest = m - fixed.transpose() * (fixed * m);
  rest -= (rest * fixed.transpose()) * fixed;
  const double size = m.norm() > 0 ? m.norm() / std::sqrt(static_cast<double>(m.rows())) : 1;
  return rest + size * fixed.transpose() * fixed;
}

class Canonical {
 public:
  Canonical(const Symmetry& symmetry, const ParameterSource& source, Progress& progress)
      : symmetry_(symmetry),
        source_(source),
        element_(standard_form(source, symmetry, 1, limits_, progress)) {
    for (const auto& spec : parameter_specs(symmetry.architecture)) {
      const StoredTensor* stored = source.stored(spec.name);
      if (spec.rows > 1 && stored != nullptr) {
        rounding_ = std::max(rounding_, rounding_of(*stored));
      }
    }
  }

  void embedding_and_head(Progress& progress) {
    auto tensors = moved(-1);
    take(unit_lengths(symmetry_, -1, tensors, found_), -1, tensors);
    for (const char* stream : {kTableStream, "residual"}) {
      const Space* space = symmetry_.find_space(stream);
      if (space == nullptr) continue;
      if (!space->is_orthogonal() && is_reversed(*space, tensors)) {
        reverse(*space, progress);
        tensors = moved(-1);
      }
      const auto* group = std::get_if<Orthogonal>(&space->group);
      take(group != nullptr ? stream_turn(*space, *group, tensors) : stream_order(*space, tensors),
           -1, tensors);
    }
    take(balance(symmetry_, tensors), -1, tensors);
    if (symmetry_.architecture.has_tables()) {
      const Element step =
          tables_in_order(symmetry_, moved(0).at("layers.0.table.gate.weight"),
                          tensors.at("embed.tables.norm.gain"), rounding_, limits_);
      ordered_.maps.insert(step.maps.begin(), step.maps.end());
      take(step, -1, tensors);
    }
    order(-1, tensors);
    take(turned(symmetry_, -1, tensors), -1, tensors);
  }

  // Several at a time, unless one needs what was done to another.
  void layers(Progress& outer) {
    const std::int64_t count = symmetry_.architecture.layers;
    const bool apart = !layers_share_spaces(symmetry_);
    std::vector<Turn> turns;
    const auto keep_all = [&] {
      for (const Turn& turn : turns) keep(turn);
      turns.clear();
    };
    const auto work = [&](std::int64_t i, Progress& own) {
      own.advance(1);
      return turn(i);
    };
    Reading reading(outer, source_);
    OneJob alone(outer);
    outer.start("canonical form", count);
    for_each_job(count, apart ? static_cast<Progress&>(reading) : alone, work,
                 [&](std::int64_t, Turn turn) {
                   turns.push_back(std::move(turn));
                   if (!apart) keep_all();
                 });
    keep_all();
    outer.finish();
  }

  Canon finish() && { return {std::move(element_), std::move(limits_)}; }

 private:
  Parameters<double> moved(std::int64_t layer) const {
    return moved_layer(symmetry_, element_, layer, source_.reader());
  }

  // What is done to one layer.
  struct Turn {
    Element step, ordered;
    std::vector<std::string> limits;
  };
  Turn turn(std::int64_t layer) const {
    Turn turn;
    auto tensors = moved(layer);
    const auto take_here = [&](const Element& step) {
      if (step.is_identity()) return;
      act_on_layer(symmetry_, step, layer, tensors);
      compose_onto(symmetry_, step, turn.step);
    };
    take_here(unit_lengths(symmetry_, layer, tensors, found_));
    take_here(turned_latents(symmetry_, layer, tensors));
    take_here(balance(symmetry_, tensors));
    turn.ordered = in_order(symmetry_, layer, tensors, ordered_, rounding_, turn.limits);
    take_here(turn.ordered);
    take_here(ordered_channels(symmetry_, layer, tensors, rounding_, turn.limits));
    take_here(turned(symmetry_, layer, tensors));
    if (symmetry_.architecture.layer(layer).attention.has_qk_norm()) {
      take_here(turned_qk_norm(symmetry_, layer, tensors));
    }
    return turn;
  }
  void keep(const Turn& turn) {
    compose_onto(symmetry_, turn.step, element_);
    found_.maps.insert(turn.step.maps.begin(), turn.step.maps.end());
    ordered_.maps.insert(turn.ordered.maps.begin(), turn.ordered.maps.end());
    limits_.insert(limits_.end(), turn.limits.begin(), turn.limits.end());
  }

  void take(const Element& step, std::int64_t layer, Parameters<double>& tensors) {
    if (step.is_identity()) return;
    compose_onto(symmetry_, step, element_);
    act_on_layer(symmetry_, step, layer, tensors);
    found_.maps.insert(step.maps.begin(), step.maps.end());
  }

  void order(std::int64_t layer, Parameters<double>& tensors) {
    const Element step = in_order(symmetry_, layer, tensors, ordered_, rounding_, limits_);
    ordered_.maps.insert(step.maps.begin(), step.maps.end());
    take(step, layer, tensors);
  }

  // The rotation of the stream that brings embedding and head nearest to the fixed table.
  Element stream_turn(const Space& space, const Orthogonal& group,
                      const Parameters<double>& tensors) {
    Matrix<double> sum = stream_sketch(symmetry_, space, tensors, space.size());
    Matrix<double> map = fixing(group, sum);
    double determined = make_orthogonal(map, false);
    // Few tokens span less than the stream: what attention makes of them spans more.
    for (std::int64_t layer = 0;
         determined < kUndetermined && layer < symmetry_.architecture.layers &&
         space.name != kTableStream;
         ++layer) {
      const Matrix<double> further = through_attention(layer, sum.transpose());
      if (further.norm() > 0) sum += further.transpose() * (sum.norm() / further.norm());
      map = fixing(group, sum);
      determined = make_orthogonal(map, false);
    }
    if (determined < kUndetermined) {
      limits_.push_back(fmt::format(
          "embedding and head determine the stream's coordinates to {:.0e} of their size only",
          std::max(determined, 1e-16)));
    }
    if (determined == 0) return {};
    Element step;
    step.maps[space.name] = BlockMap<double>(1, space.size(), {}, map);
    return step;
  }

  // rows U O, summed over the heads: vectors of the stream become others, whatever the gauge.
  Matrix<double> through_attention(std::int64_t layer, const Matrix<double>& rows) const {
    const Attention& shape = symmetry_.architecture.layer(layer).attention;
    const auto tensors = moved(layer);
    if (symmetry_.architecture.layer(layer).has_delta()) {
      const std::string delta = fmt::format("layers.{}.delta", layer);
      const Matrix<double>& kernels = tensors.at(delta + ".v_conv.weight");
      const Matrix<double> values = product(rows, tensors.at(delta + ".v.weight")) *
                                    kernels.bottomRows(1).row(0).asDiagonal();
      return product(values, tensors.at(delta + ".o.weight"));
    }
    const std::string at = fmt::format("layers.{}.attn", layer);
    const Matrix<double> read =
        shape.has_latents() ? product(rows, tensors.at(at + ".kv_latent.weight")) : rows;
    Matrix<double> values =
        product(read, tensors.at(fmt::format("{}.{}.weight", at, shape.value_map())));
    for (Eigen::Index i = 0; shape.value_norm && i < values.cols(); i += shape.v_width) {
      values.middleCols(i, shape.v_width).rowwise().normalize();
    }
    const auto share = shape.group();
    Matrix<double> spread(rows.rows(), shape.heads * shape.v_width);
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      spread.middleCols(head * shape.v_width, shape.v_width) =
          values.middleCols(head / share * shape.v_width, shape.v_width);
    }
    return product(spread, tensors.at(at + ".o.weight"));
  }

  // Where one sign is free for all coordinates: their third moment is negative.
  bool is_reversed(const Space& stream, const Parameters<double>& tensors) const {
    return symmetry_.find_space(stream.name + ".sign") != nullptr &&
           stream_sketch(symmetry_, stream, tensors, 1).array().cube().sum() < 0;
  }

  // Coordinates that only change places and signs, in the order of what they have of one fixed
  // column.
  Element stream_order(const Space& space, const Parameters<double>& tensors) {
    Eigen::VectorXd parts = stream_sketch(symmetry_, space, tensors, 1).col(0);
    Element step;
    Matrix<double> signs;
    if (space.is_signs()) {
      signs = parts.unaryExpr([](double part) { return part < 0 ? -1.0 : 1.0; });
      parts = parts.cwiseAbs();
    }
    std::vector<std::int64_t> order(static_cast<std::size_t>(parts.size()));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t i, std::int64_t j) { return parts(i) > parts(j); });
    std::vector<std::int64_t> places(order.size());
    std::int64_t close = 0;
    const double size = parts.norm() / std::sqrt(static_cast<double>(parts.size()));
    for (std::size_t i = 0; i < order.size(); ++i) {
      places[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
      if (i > 0 && parts(order[i - 1]) - parts(order[i]) < rounding_ * size) ++close;
    }
    if (close > 0) {
      limits_.push_back(fmt::format(
          "{}: {} of {} neighbours in the order of coordinates differ by rounding alone",
          space.name, close, parts.size() - 1));
    }
    step.maps[space.name] = BlockMap<double>(space.count, 1, std::move(places), signs);
    return step;
  }

  // All coordinates of the stream change their sign; biases that must stay keep theirs.
  void reverse(const Space& stream, Progress& progress) {
    const std::string sign = stream.name + ".sign";
    const Matrix<double> minus = Matrix<double>::Constant(1, 1, -1);
    if (stream.name == kTableStream) {  // whose norm has a bias that goes
      Element step;
      step.maps[sign] = BlockMap<double>(1, 1, {}, minus);
      found_.maps.insert(step.maps.begin(), step.maps.end());
      return compose_onto(symmetry_, step, element_);
    }
    std::vector<std::string> known_limits;
    Element step = found_;
    step.maps[sign] = BlockMap<double>(1, 1, {}, minus);
    element_ =
        compose(symmetry_, step, standard_form(source_, symmetry_, -1, known_limits, progress));
  }

  const Symmetry& symmetry_;
  const ParameterSource& source_;
  std::vector<std::string> limits_;
  double rounding_ = 0;
  Element element_;
  Element found_;    // the spaces that are done
  Element ordered_;  // those whose blocks are in order
};

}  // namespace

Canon canon(const Symmetry& symmetry, const ParameterSource& source, Progress& progress) {
  if (!symmetry.architecture.beside.empty()) return canon_of_towers(symmetry, source, progress);
  Canonical canonical(symmetry, source, progress);
  canonical.embedding_and_head(progress);
  canonical.layers(progress);
  return std::move(canonical).finish();
}

}  // namespace regauge
