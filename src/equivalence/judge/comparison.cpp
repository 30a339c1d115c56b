#include "comparison.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "arch/names.h"
#include "arch/reading.h"
#include "chance.h"
#include "entries.h"
#include "equivalence/residual_record.h"
#include "equivalence/tolerances.h"
#include "in_place.h"
#include "io/parts.h"
#include "products.h"

namespace regauge {
namespace {

constexpr std::int64_t kHeldNumbers = std::int64_t{1} << 22;   // of a matrix
constexpr std::int64_t kPieceNumbers = std::int64_t{1} << 20;  // of a piece of a larger one

bool wide(const StoredTensor* tensor) { return tensor == nullptr || works_in_double(*tensor); }

// A stored matrix from its first product on: one that a patch makes is made as a whole.
template <class Scalar>
class OnDemand {
 public:
  using Stored = StoredMatrix<Scalar>;
  OnDemand(const ParameterSource& source, const ParameterSpec& spec,
           typename Stored::Of of = Stored::Of::numbers)
      : source_(source), spec_(spec), of_(of) {}
  const Stored& get() const {
    if (!stored_) stored_.emplace(source_, spec_, of_);
    return *stored_;
  }

 private:
  const ParameterSource& source_;
  const ParameterSpec& spec_;
  typename Stored::Of of_;
  mutable std::optional<Stored> stored_;
};

template <class Scalar>
MovedMatrix<Scalar> by_products(const ParameterSpec& spec, const OnDemand<Scalar>& numbers) {
  return {spec.rows, spec.cols,
          [&numbers](const Matrix<Scalar>& x) { return numbers.get().left(x); },
          [&numbers](const Matrix<Scalar>& y) { return numbers.get().right(y); }};
}

// W with every number perturbed by as much as its rounding, known by products with single vectors.
template <class Scalar>
MovedMatrix<Scalar> perturbed(const ParameterSpec& spec, const OnDemand<Scalar>& numbers,
                              const OnDemand<Scalar>& variances) {
  const auto with_noise = [name = spec.name](Matrix<Scalar> product,
                                             const Matrix<Scalar>& variance) {
    Random random(0, "rounding/" + name);
    for (Eigen::Index i = 0; i < product.size(); ++i) {
      product.data()[i] +=
          static_cast<Scalar>(random.normal() * std::sqrt(static_cast<double>(variance.data()[i])));
    }
    return product;
  };
  return {spec.rows, spec.cols,
          [=, &numbers, &variances](const Matrix<Scalar>& x) {
            return with_noise(numbers.get().left(x), variances.get().left(x.cwiseAbs2()));
          },
          [=, &numbers, &variances](const Matrix<Scalar>& y) {
            return with_noise(numbers.get().right(y), variances.get().right(y.cwiseAbs2()));
          }};
}

// A vector's own rounding.
double deviation_of(const Matrix<double>& variances) {
  return std::sqrt(variances.sum() /
                   static_cast<double>(std::max<Eigen::Index>(variances.size(), 1)));
}

// Numbers that only change places, and to all of which, or to all of a row or of a column, one
// constant is added: by which of the three effects.
std::optional<Effect::Kind> added_constant(const Symmetry& symmetry, const TensorPlan& tensor) {
  for (const auto& step : tensor.linear) {
    if (step.kind != Step::Kind::map) return std::nullopt;
    const auto* scaling = std::get_if<Scaling>(&symmetry.find_space(step.part.space)->group);
    const bool trivial = scaling != nullptr && scaling->kind() == Scaling::Kind::trivial;
    if (!trivial && step.part.take != AxisPart::Take::permutation) return std::nullopt;
  }
  std::optional<Effect::Kind> found;
  for (const auto& step : tensor.shifts) {
    const Effect::Kind kind = step.effect.kind;
    const bool constant = kind == Effect::Kind::add_all || kind == Effect::Kind::add_rows ||
                          kind == Effect::Kind::add_columns;
    const bool by_gain = kind == Effect::Kind::add_columns && !step.effect.norm.empty();
    if (!constant || by_gain || (found && *found != kind)) return std::nullopt;
    found = kind;
  }
  return tensor.receives ? std::nullopt : found;
}

// Half the width of what is left over where it is largest, among numbers that have one constant: no
// constant brings it below that. Rows that are free by themselves do not count.
double half_width(const TensorPlan& tensor, Effect::Kind kind, const Matrix<double>& off) {
  Eigen::ArrayX<bool> counts = Eigen::ArrayX<bool>::Constant(off.rows(), true);
  for (const auto& step : tensor.shifts) {
    const Effect& effect = step.effect;
    if (effect.last_row < 0) continue;
    counts.segment(effect.first_row, effect.last_row - effect.first_row) = false;
  }
  std::vector<Eigen::Index> rows;
  for (Eigen::Index row = 0; row < off.rows(); ++row) {
    if (counts(row)) rows.push_back(row);
  }
  if (rows.empty() || off.cols() == 0) return 0;
  const Matrix<double> counted = off(rows, Eigen::all);
  const auto width = [](const auto& ends) { return ends.maxCoeff() / 2; };
  switch (kind) {
    case Effect::Kind::add_columns:
      return width(counted.rowwise().maxCoeff() - counted.rowwise().minCoeff());
    case Effect::Kind::add_rows:
      return width(counted.colwise().maxCoeff() - counted.colwise().minCoeff());
    default:
      return (counted.maxCoeff() - counted.minCoeff()) / 2;
  }
}

std::int64_t size_of(const LayerPlan& layer) {
  std::int64_t size = 0;
  for (const auto& tensor : layer.matrices) size += tensor.spec.rows * tensor.spec.cols;
  return size;
}

}  // namespace

Comparison::Comparison(const Symmetry& symmetry, const Element& a_from_b, const ParameterSource& a,
                       const ParameterSource& b)
    : a_(a),
      b_(b),
      read_part_(symmetry, a),
      symmetry_(symmetry),
      plan_(make_plan(symmetry, a_from_b)),
      perturbed_element_(perturbed(a_from_b, std::max(coarsest_rounding(a), coarsest_rounding(b)))),
      movers_{{symmetry, a_from_b}, {symmetry, perturbed_element_}} {
  for (const auto& [name, site] : symmetry.norms) {
    for (const auto& reader : site.readers) gain_of_[reader.weight] = site.gain();
    if (site.is_layer_scale()) gain_of_[site.writer + ".weight"] = site.gain();
  }
}

double Comparison::gain_variance(const ParameterSource& source, const std::string& tensor) const {
  const auto gain = gain_of_.find(tensor);
  if (gain == gain_of_.end()) return 0;
  const Matrix<double> values = source.read<double>(gain->second);
  const Matrix<double> variances = source.variances<double>(gain->second);
  double sum = 0;
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    const double square = values.data()[i] * values.data()[i];
    if (square > 0) sum += variances.data()[i] / square;
  }
  return sum / static_cast<double>(values.size());
}

double Comparison::constant_share(const TensorPlan& tensor) {
  const bool added = std::any_of(tensor.shifts.begin(), tensor.shifts.end(), [](const Step& step) {
    return step.effect.kind == Effect::Kind::add_rows || step.effect.kind == Effect::Kind::add_all;
  });
  return added ? kConstantShare : 1;
}

double Comparison::rms_of_a(const ParameterSpec& spec) const {
  if (a_.pieces(spec.name).empty()) return rms(a_.read<double>(spec.name));
  const StoredMatrix<double> numbers(a_, spec);
  for (const int axis : {0, 1}) {
    if (!numbers.lies_along(axis)) continue;
    const std::int64_t all = axis == 0 ? spec.rows : spec.cols;
    const std::int64_t most = vectors_in_a_piece(spec, axis);
    double squares = 0;
    for (std::int64_t first = 0; first < all; first += most) {
      squares += numbers.vectors(first, std::min(most, all - first)).squaredNorm();
    }
    return std::sqrt(squares / static_cast<double>(spec.rows * spec.cols));
  }
  return rms(a_.read<double>(spec.name));
}

// A constant that the group lets pass into a vector may be as large as one likes, and with it the
// rounding that it leaves; what else the vector holds is no larger for that. So it counts in units
// of what the map beside it writes where norms give root mean squares of 1, or by its spread.
double Comparison::size_of_vector(const TensorPlan& tensor, const Matrix<double>& value) const {
  if (!tensor.is_shifted()) return rms(value);
  const auto beside = [&](const char* role) -> const ParameterSpec* {
    const auto& specs = symmetry_.index->tensors;
    const auto found = specs.find(sibling_of(tensor.spec.name, role));
    return found == specs.end() ? nullptr : &found->second;
  };
  if (const ParameterSpec* weight = beside("weight")) {
    return rms_of_a(*weight) * std::sqrt(static_cast<double>(weight->rows));
  }
  if (const ParameterSpec* gain = beside("gain")) return rms_of_a(*gain);
  const double spread = rms<double>(value.array() - value.mean());
  return spread > 0 ? spread : 1;  // scores and logits are of that order
}

std::vector<TensorResidual> Comparison::run(Progress& outer, const Layers& only) const {
  std::map<std::string, TensorResidual> results;
  std::vector<const LayerPlan*> layers;
  for (const auto& layer : plan_.layers) {
    if (only.empty() || only.contains(layer.layer)) layers.push_back(&layer);
  }
  std::vector<std::int64_t> sizes;
  for (const auto* layer : layers) sizes.push_back(size_of(*layer));
  Reading progress(outer, a_, b_);
  progress.start("comparing", parameter_count(symmetry_.architecture));
  for_each_unit(
      "compare layers", sizes, progress,
      [&](std::int64_t i, Progress& own) {
        return run(*layers[static_cast<std::size_t>(i)], movers_, own);
      },
      [&](std::int64_t, auto of_layer) { results.merge(of_layer); });
  progress.finish();
  std::vector<TensorResidual> ordered;
  for (const auto& spec : parameter_specs(symmetry_.architecture)) {
    const bool judged = only.empty() || only.contains(spec.layer);
    ordered.push_back(judged ? std::move(results.at(spec.name)) : TensorResidual());
  }
  hide_coarse_products(a_, b_, ordered);
  return ordered;
}

std::map<std::string, TensorResidual> Comparison::run(const LayerPlan& layer, Movers movers,
                                                      Progress& progress) const {
  std::map<std::string, TensorResidual> results;
  const auto read = [&](const TensorPlan& tensor) { return b_.read<double>(tensor.spec.name); };
  movers.exact.begin(layer, read);
  movers.perturbed.begin(layer, [&](const TensorPlan& tensor) {
    return perturbed(tensor.spec.name, read(tensor), b_.variances<double>(tensor.spec.name));
  });
  for (const auto& tensor : layer.matrices) {
    const std::string& name = tensor.spec.name;
    results[name] = wide(a_.stored(name)) || wide(b_.stored(name)) ? matrix<double>(tensor, movers)
                                                                   : matrix<float>(tensor, movers);
    progress.advance(tensor.spec.rows * tensor.spec.cols);
  }
  const auto moved = movers.exact.finish(layer);
  const auto moved_noisy = movers.perturbed.finish(layer);
  for (const auto& tensor : layer.vectors) {
    const std::string& name = tensor.spec.name;
    if (!tensor.touched()) {
      results[name] = compare_tensor_in_place(tensor.spec, a_, b_);
      continue;
    }
    const Matrix<double> expected = a_.read<double>(name);
    const Matrix<double> off = expected - moved.at(name);
    TensorResidual result;
    result.tensor = name;
    result.single_row = true;
    result.size = size_of_vector(tensor, expected);
    result.residual = rms(off);
    const double own = deviation_of(a_.variances<double>(name));
    // A bias is carried by the map of its matrix, which is known as well as the matrix.
    const auto weight =
        name.ends_with(".bias") ? results.find(sibling_of(name, "weight")) : results.end();
    const bool carried = weight != results.end() && weight->second.size > 0;
    const double others = std::hypot(
        rms<double>(moved_noisy.at(name) - moved.at(name)),
        carried ? weight->second.rounding / weight->second.size * rms(moved.at(name)) : 0);
    const double floor =
        kDoubleDigits * std::max({rms(expected), rms(moved.at(name)), result.size});
    const double most = off.size() == 0 ? 0 : off.cwiseAbs().maxCoeff();
    const auto excess = [&](double rounding) {
      return std::max(result.residual / (kAcceptedVector * rounding),
                      most / (kAcceptedVectorEntry * largest_of(off.size()) * rounding));
    };
    result.rounding = std::hypot(own, others, floor);
    result.excess = excess(result.rounding);
    if (result.residual == 0) {
      result.relation = Relation::equal;
      result.excess = 0;
    } else if (excess(std::hypot(others, floor)) <= 1) {
      result.relation = Relation::b_rounds_a;
      result.rounding = std::hypot(others, floor);
    } else if (excess(std::hypot(own, floor)) <= 1) {
      result.relation = Relation::a_rounds_b;
      result.rounding = std::hypot(own, floor);
    } else if (result.excess <= 1) {
      result.relation = Relation::both_round;
    }
    hold_to_a_constant(tensor, off, result);
    // A map of zeros lets no constant pass, and writes nothing to measure by.
    const bool coarse =
        result.size > 0 && result.rounding > most_hidden(a_, b_, name) * result.size;
    if (coarse && result.relation != Relation::equal && result.relation != Relation::differs) {
      result.relation = Relation::hidden;
    }
    results[name] = std::move(result);
  }
  return results;
}

template <class Scalar>
TensorResidual Comparison::matrix(const TensorPlan& tensor, Movers& movers) const {
  const ParameterSpec& spec = tensor.spec;
  if (!tensor.touched()) return compare_tensor_in_place(spec, a_, b_);
  const OnDemand<Scalar> numbers(b_, spec);
  const OnDemand<Scalar> variances(b_, spec, StoredMatrix<Scalar>::Of::variances);
  MovedMatrix<Scalar> moved = by_products(spec, numbers);
  MovedMatrix<Scalar> noisy = perturbed(spec, numbers, variances);
  movers.exact.transform(tensor, moved);
  movers.perturbed.transform(tensor, noisy);
  TensorResidual result;
  result.tensor = spec.name;
  // Numbers that change places or signs are held to their own rounding.
  if (moved.is_monomial()) {
    one_by_one(tensor, moved, result);
  } else {
    judge(tensor, moved, result);
    if (added_constant(symmetry_, tensor) && spec.rows * spec.cols <= kHeldNumbers) {
      Matrix<Scalar> value = b_.read<Scalar>(spec.name);
      moved.replay(value);
      hold_to_a_constant(tensor, a_.read<double>(spec.name) - value.template cast<double>(),
                         result);
    }
  }
  return result;
}

// Rounding leaves no number further from where a constant puts it than half a unit of both files.
void Comparison::hold_to_a_constant(const TensorPlan& tensor, const Matrix<double>& off,
                                    TensorResidual& result) const {
  const auto constant = added_constant(symmetry_, tensor);
  if (!result.agrees() || !constant) return;
  double room = kDoubleDigits * off.cwiseAbs().maxCoeff();
  for (const auto* source : {&a_, &b_}) {
    const auto bounds = source->bounds(tensor.spec.name);
    room += bounds.below.cwiseMax(bounds.above).maxCoeff();
  }
  const double beyond = half_width(tensor, *constant, off) / std::max(room, 1e-300);
  if (beyond <= 1 + kHalfUnitSlack) return;
  result.relation = Relation::differs;
  result.excess = beyond;
  result.standing_out = "one number";
}

template <class Scalar>
int Comparison::axis_of_pieces(const ParameterSpec& spec, const MovedMatrix<Scalar>& moved) const {
  if (spec.rows * spec.cols <= kHeldNumbers) return -1;
  if (a_.pieces(spec.name).empty() || b_.pieces(spec.name).empty()) return -1;
  const StoredMatrix<Scalar> in_a(a_, spec), in_b(b_, spec);
  for (const int axis : {0, 1}) {
    const bool cuts_what_is_read = axis == 0 && read_part_.concerns(spec.name);
    if (moved.leaves_apart(axis) && !cuts_what_is_read && in_a.lies_along(axis) &&
        in_b.lies_along(axis)) {
      return axis;
    }
  }
  return -1;
}
template int Comparison::axis_of_pieces(const ParameterSpec&, const MovedMatrix<float>&) const;
template int Comparison::axis_of_pieces(const ParameterSpec&, const MovedMatrix<double>&) const;

std::int64_t Comparison::slices(const ParameterSpec& spec) const {
  const bool cuts_what_is_read = spec.sliced_rows && read_part_.concerns(spec.name);
  if (spec.rows * spec.cols <= kHeldNumbers || cuts_what_is_read) return 1;
  const std::int64_t slices = a_.slices(spec.name);
  return b_.slices(spec.name) == slices ? slices : 1;
}

std::int64_t Comparison::vectors_in_a_piece(const ParameterSpec& spec, int axis) {
  return std::max<std::int64_t>(1, kPieceNumbers / (axis == 0 ? spec.cols : spec.rows));
}

template <class Scalar>
void Comparison::one_by_one(const TensorPlan& tensor, const MovedMatrix<Scalar>& moved,
                            TensorResidual& result) const {
  const ParameterSpec& spec = tensor.spec;
  const std::string& name = spec.name;
  const MovedMatrix<double> moved_bounds = moved.bounds();
  Entries entries;
  // A negative factor exchanges the two sides of B's bounds; the larger one serves for both.
  const auto add = [&](const Matrix<double>& x, const ParameterSource::Bounds& around_x,
                       const Matrix<double>& y, const Matrix<double>& room_y) {
    for (Eigen::Index i = 0; i < x.size(); ++i) {
      entries.add({x.data()[i], around_x.below.data()[i], around_x.above.data()[i]},
                  {y.data()[i], room_y.data()[i], room_y.data()[i]});
    }
  };
  const auto larger = [](const ParameterSource::Bounds& bounds) -> Matrix<double> {
    return bounds.below.cwiseMax(bounds.above);
  };
  const int axis = axis_of_pieces(spec, moved);
  if (axis < 0) {
    const std::int64_t count = slices(spec);
    const int sliced = spec.sliced_rows ? 0 : 1;
    for (std::int64_t slice = 0; slice < count; ++slice) {
      const std::int64_t from = moved.source_of(sliced, count, slice);
      const std::int64_t at_a = or_all(count, slice), at_b = or_all(count, from);
      Matrix<Scalar> y = b_.read<Scalar>(name, at_b);
      moved.replay_slice(sliced, count, from, y);
      Matrix<double> room_y = larger(b_.bounds(name, at_b));
      moved_bounds.replay_slice(sliced, count, from, room_y);
      add(a_.read<double>(name, at_a), a_.bounds(name, at_a), y.template cast<double>(), room_y);
    }
  } else {
    using Wide = StoredMatrix<double>;
    const Wide x(a_, spec), below_x(a_, spec, Wide::Of::below), above_x(a_, spec, Wide::Of::above);
    const Wide below_y(b_, spec, Wide::Of::below), above_y(b_, spec, Wide::Of::above);
    const StoredMatrix<Scalar> y(b_, spec);
    const std::int64_t most = vectors_in_a_piece(spec, axis);
    const std::int64_t all = axis == 0 ? spec.rows : spec.cols;
    for (std::int64_t first = 0; first < all; first += most) {
      const std::int64_t count = std::min(most, all - first);
      Matrix<Scalar> part_y = y.vectors(first, count);
      moved.replay(axis, first, part_y);
      Matrix<double> room_y =
          larger({below_y.vectors(first, count), above_y.vectors(first, count)});
      moved_bounds.replay(axis, first, room_y);
      add(x.vectors(first, count), {below_x.vectors(first, count), above_x.vectors(first, count)},
          part_y.template cast<double>(), room_y);
    }
  }
  const StoredTensor* stored_a = a_.stored(name);
  const StoredTensor* stored_b = b_.stored(name);
  entries.judge(stored_a != nullptr && stored_b != nullptr && stored_alike(*stored_a, *stored_b),
                most_hidden(a_, b_, name), result);
}

}  // namespace regauge
