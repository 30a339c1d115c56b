#include "executor.h"

#include <fmt/format.h>

#include <stdexcept>

#include "regauge/base/error.h"

namespace regauge {
namespace {

Eigen::RowVectorXd origin(const Architecture& a, const std::string& tensor) {
  Eigen::RowVectorXd row(a.width);
  for (std::int64_t i = 0; i < a.width; ++i) row(i) = fixed_origin(a, tensor, i);
  return row;
}

void require_nonzero(const Matrix<double>& gain, const std::string& norm) {
  for (Eigen::Index i = 0; i < gain.cols(); ++i) {
    if (gain(0, i) == 0) {
      throw NoStandardForm(fmt::format(
          "[act] {}.gain is 0 at coordinate {}: nothing behind it can be rotated or rescaled. "
          "Set it to a small number and the rows behind it to 0 first",
          norm, i));
    }
  }
}

// The sum of bias/gain that a constant has to pass through.
double passable(const Eigen::RowVectorXd& over, const std::string& tensor,
                const std::string& norm) {
  const double sum = over.sum();
  if (std::abs(sum) <= 1e-6 * over.cwiseAbs().sum()) {
    throw NoStandardForm(
        fmt::format("[act] {}: no constant can pass through {}, whose bias/gain sums to {:.2g}; "
                    "leave the shifts out: --only {}",
                    tensor, norm, sum, category_names(",", false)));
  }
  return sum;
}

// Numbers of which a shift leaves nothing but the error of the arithmetic are zero.
void clear_what_cancels(const Matrix<double>& unshifted, Matrix<double>& value) {
  constexpr double kDigits = 1e-13;
  value = (value.array().abs() < kDigits * unshifted.array().abs()).select(0.0, value);
}

template <class Scalar>
using Row = Eigen::RowVector<Scalar, Eigen::Dynamic>;

// What steps are made of, for matrices in memory and for those known by their products.
template <class Scalar>
void apply_map(Matrix<Scalar>& value, int axis, const BlockMap<Scalar>& map) {
  map.apply(value, axis);
}
template <class Scalar>
void apply_map(MovedMatrix<Scalar>& value, int axis, const BlockMap<Scalar>& map) {
  value.apply(map, axis);
}

template <class Scalar>
void scale_axis(Matrix<Scalar>& value, int axis, const Row<Scalar>& factors) {
  if (axis == 0) {
    value.array().colwise() *= factors.transpose().array();
  } else {
    value.array().rowwise() *= factors.array();
  }
}
template <class Scalar>
void scale_axis(MovedMatrix<Scalar>& value, int axis, const Row<Scalar>& factors) {
  value.scale(factors, axis);
}

template <class Scalar>
void add_outer(Matrix<Scalar>& value, const Row<Scalar>& column, const Row<Scalar>& row) {
  value.noalias() += column.transpose() * row;
}
template <class Scalar>
void add_outer(MovedMatrix<Scalar>& value, const Row<Scalar>& column, const Row<Scalar>& row) {
  value.add_outer(column, row);
}

template <class Scalar>
Row<Scalar> times(const Row<Scalar>& row, const Matrix<Scalar>& value, bool transposed) {
  return transposed ? Row<Scalar>(row * value.transpose()) : Row<Scalar>(row * value);
}
template <class Scalar>
Row<Scalar> times(const Row<Scalar>& row, const MovedMatrix<Scalar>& value, bool transposed) {
  return transposed ? Row<Scalar>(value.right(row.transpose()).transpose())
                    : Row<Scalar>(value.left(row));
}

}  // namespace

template <class Scalar>
const BlockMap<Scalar>& Executor::map_in(Cache<Scalar>& cache, const std::string& key,
                                         const AxisPart& part) const {
  auto found = cache.find(key);
  if (found == cache.end()) {
    found = cache.emplace(key, axis_map(symmetry_, element_, part).template cast<Scalar>()).first;
  }
  return found->second;
}

template <class Scalar>
const BlockMap<Scalar>& Executor::map(const AxisPart& part) {
  // An orthogonal map is its own dual.
  const bool dual = part.dual && !symmetry_.find_space(part.space)->is_orthogonal();
  const std::string key =
      fmt::format("{}/{}/{}/{}/{}/{}", part.space, dual, static_cast<int>(part.take), part.repeat,
                  part.tile, part.lift);
  const auto in = [](auto& maps) -> Cache<Scalar>& {
    if constexpr (std::is_same_v<Scalar, float>) {
      return maps.floats;
    } else {
      return maps.doubles;
    }
  };
  if (layer_of(part.space) >= 0) return map_in(in(own_), key, part);
  const std::lock_guard lock(shared_->mutex);
  return map_in(in(shared_->maps), key, part);
}

const Matrix<double>& Executor::gain(const std::string& norm) const {
  const Matrix<double>& value = now_.at(norm + ".gain");
  require_nonzero(value, norm);
  return value;
}

Eigen::RowVectorXd Executor::norm_bias(const std::string& norm) const {
  return now_.at(symmetry_.norms.at(norm).bias).row(0);
}

Eigen::RowVectorXd Executor::bias_over_gain(const std::string& norm) const {
  const std::string& bias = symmetry_.norms.at(norm).bias;
  const Matrix<double>& divisor = gain(norm);
  if (bias.empty()) return Eigen::RowVectorXd::Zero(divisor.cols());
  return now_.at(bias).row(0).cwiseQuotient(divisor.row(0));
}

void Executor::begin(const LayerPlan& layer,
                     const std::function<Matrix<double>(const TensorPlan&)>& read) {
  // Maps of one layer's own spaces are not needed by the next; the stream's map is.
  own_ = {};
  before_.clear();
  for (const auto* list : {&layer.borrowed, &layer.vectors}) {
    for (const auto& tensor : *list) before_.emplace(tensor.spec.name, read(tensor));
  }
  now_ = before_;
  for (const auto* list : {&layer.borrowed, &layer.vectors}) {
    for (const auto& tensor : *list) {
      for (const auto& step : tensor.linear) apply_linear(step, now_.at(tensor.spec.name));
    }
  }
  unshifted_.clear();
  for (const auto& tensor : layer.vectors) {
    if (tensor.is_shifted()) unshifted_.emplace(tensor.spec.name, now_.at(tensor.spec.name));
  }
}

template <class Tensor>
void Executor::transform(const TensorPlan& tensor, Tensor& value) {
  for (const auto& step : tensor.linear) apply_linear(step, value);
  for (const auto& step : tensor.shifts) apply_shift(step, value);
}

Executor::Vectors Executor::finish(const LayerPlan& layer) {
  // Shifts of vectors speak of norms as they stand now, so all are computed before any is
  // stored.
  Vectors own;
  for (const auto& tensor : layer.vectors) {
    Matrix<double> value = now_.at(tensor.spec.name);
    for (const auto& step : tensor.shifts) apply_shift(step, value);
    if (tensor.is_shifted()) clear_what_cancels(unshifted_.at(tensor.spec.name), value);
    own.emplace(tensor.spec.name, std::move(value));
  }
  return own;
}

template <class Tensor>
void Executor::apply_linear(const Step& step, Tensor& value) {
  using Scalar = typename Tensor::Scalar;
  const auto ones = [&] { return Row<Scalar>(Row<Scalar>::Ones(value.rows())); };
  // Heads may share a gain.
  const auto scale = [&](const Eigen::RowVectorXd& factors) {
    const Eigen::Index length = step.axis == 0 ? value.rows() : value.cols();
    const Row<Scalar> all = factors.replicate(1, length / factors.cols()).template cast<Scalar>();
    scale_axis<Scalar>(value, step.axis, all);
  };
  switch (step.kind) {
    case Step::Kind::map:
      apply_map<Scalar>(value, step.axis, map<Scalar>(step.part));
      return;
    case Step::Kind::times_gain:
    case Step::Kind::over_gain: {
      const Matrix<double>& old = before_.at(step.norm + ".gain");
      require_nonzero(old, step.norm);
      scale(step.kind == Step::Kind::times_gain ? Eigen::RowVectorXd(old.row(0))
                                                : Eigen::RowVectorXd(old.row(0).cwiseInverse()));
      return;
    }
    case Step::Kind::times_new_gain:
      scale(gain(step.norm).row(0));
      return;
    case Step::Kind::over_new_gain:
      scale(gain(step.norm).row(0).cwiseInverse());
      return;
    case Step::Kind::add_origin:
      add_outer<Scalar>(value, ones(),
                        origin(symmetry_.architecture, step.tensor).template cast<Scalar>());
      return;
    case Step::Kind::take_origin:
      add_outer<Scalar>(value, -ones(),
                        origin(symmetry_.architecture, step.tensor).template cast<Scalar>());
      return;
    case Step::Kind::shift:
      break;
  }
  throw std::logic_error("[act] a shift among the basis changes");
}

template <class Tensor>
void Executor::apply_shift(const Step& step, Tensor& value) {
  using Scalar = typename Tensor::Scalar;
  const Effect& effect = step.effect;
  const Eigen::RowVectorXd shift = element_.shifts.at(step.shift_name).row(0);
  const auto add = [&](const Eigen::RowVectorXd& column, const Eigen::RowVectorXd& row) {
    add_outer<Scalar>(value, column.cast<Scalar>(), row.cast<Scalar>());
  };
  const Eigen::RowVectorXd ones = Eigen::RowVectorXd::Ones(value.cols());
  switch (effect.kind) {
    case Effect::Kind::add_rows: {
      const auto last = effect.last_row < 0 ? value.rows() : effect.last_row;
      Eigen::RowVectorXd rows = Eigen::RowVectorXd::Zero(value.rows());
      rows.segment(effect.first_row, last - effect.first_row).setOnes();
      add(rows, effect.factor * shift);
      if (!effect.target.empty()) {
        now_.at(effect.target).array() -= effect.factor * shift.dot(norm_bias(effect.norm));
      }
      return;
    }
    case Effect::Kind::add_columns:
      add(shift,
          effect.norm.empty() ? ones : Eigen::RowVectorXd(gain(effect.norm).row(0).cwiseInverse()));
      return;
    case Effect::Kind::add_all:
      add(Eigen::RowVectorXd::Ones(value.rows()), shift(0) * ones);
      if (!effect.target.empty()) {
        now_.at(effect.target).array() -= shift(0) * norm_bias(effect.norm).sum();
      }
      return;
    case Effect::Kind::add_gained:
      add(Eigen::RowVectorXd::Ones(1),
          effect.factor * shift.cwiseProduct(gain(effect.norm).row(0)));
      return;
    case Effect::Kind::reader:
      add(gain(effect.norm).row(0).cwiseInverse(), shift);
      if (!effect.target.empty()) {
        now_.at(effect.target).row(0) -= bias_over_gain(effect.norm).sum() * shift;
      }
      return;
    case Effect::Kind::reader_constant: {
      const double sum = passable(bias_over_gain(effect.norm), effect.tensor, effect.norm);
      const Eigen::RowVectorXd constant =
          shift.cols() == 1 ? Eigen::RowVectorXd(shift(0) * ones) : shift;
      add(gain(effect.norm).row(0).cwiseInverse(), constant / sum);
      return;
    }
    case Effect::Kind::reader_columns: {
      const Eigen::RowVectorXd over = bias_over_gain(effect.norm);
      Eigen::RowVectorXd column = shift;
      const double added = over.dot(shift);
      if (!effect.target.empty()) {
        now_.at(effect.target).array() -= added;
      } else if (over.sum() != 0) {
        column.array() -= added / over.sum();
      }
      add(column.cwiseQuotient(gain(effect.norm).row(0)), ones);
      return;
    }
    case Effect::Kind::absorb: {
      Row<Scalar> lifted(value.rows());
      for (Eigen::Index i = 0; i < value.rows(); ++i) {
        const auto head = i / effect.width;
        lifted(i) =
            static_cast<Scalar>(shift(head / effect.spread * effect.width + i % effect.width));
      }
      Eigen::RowVectorXd constant = times<Scalar>(lifted, value, false).template cast<double>();
      if (effect.centred && effect.norm.empty()) {
        constant.array() -= constant.mean();
      } else if (effect.centred) {
        const Eigen::RowVectorXd scale = gain(effect.norm).row(0);
        constant -= constant.cwiseProduct(scale).mean() * scale.cwiseInverse();
      }
      now_.at(effect.target).row(0) -= constant;
      return;
    }
    case Effect::Kind::norm_reader: {
      const Row<Scalar> moved =
          shift.cwiseProduct(gain(effect.norm).row(0)).template cast<Scalar>();
      const Eigen::RowVectorXd constant =
          times<Scalar>(moved, value, effect.transposed).template cast<double>();
      if (!effect.target.empty()) {
        now_.at(effect.target).row(0) -= constant;
        return;
      }
      const double sum = passable(bias_over_gain(effect.norm) + shift, effect.tensor, effect.norm);
      add(gain(effect.norm).row(0).cwiseInverse(), -constant / sum);
      return;
    }
  }
}

template void Executor::transform(const TensorPlan&, Matrix<float>&);
template void Executor::transform(const TensorPlan&, Matrix<double>&);
template void Executor::transform(const TensorPlan&, MovedMatrix<float>&);
template void Executor::transform(const TensorPlan&, MovedMatrix<double>&);

}  // namespace regauge
