#include "framed_model.h"

#include <algorithm>

#include "action/executor.h"

namespace regauge {
namespace {

// The axis of a tensor whose vectors are moved each by itself, or -1.
int independent_axis(const TensorPlan& tensor) {
  if (!tensor.shifts.empty()) return -1;
  for (const int axis : {0, 1}) {
    if (std::none_of(tensor.linear.begin(), tensor.linear.end(),
                     [&](const Step& step) { return step.axis == axis; })) {
      return axis;
    }
  }
  return -1;
}

// Every step-th vector of an axis, in the place of all; all where they do not lie together.
template <class Scalar>
Matrix<Scalar> some_vectors(const ParameterSource& source, const ParameterSpec& spec, int axis,
                            std::int64_t step) {
  const StoredMatrix<Scalar> stored(source, spec);
  if (!stored.lies_along(axis)) return source.read<Scalar>(spec.name);
  Matrix<Scalar> vectors = stored.vectors(0, (axis == 0 ? spec.rows : spec.cols) / step, step);
  if (axis == 1) vectors.transposeInPlace();
  return vectors;
}

}  // namespace

Parameters<double> FramedModel::layer(std::int64_t layer, const Frame& frame) const {
  if (frame.is_whole()) return MovedModel::layer(layer);
  const LayerPlan plan = plan_of(layer);
  Executor executor(symmetry(), element());
  executor.begin(plan,
                 [&](const TensorPlan& tensor) { return source_.read<double>(tensor.spec.name); });
  Parameters<double> result;
  const auto look = [&]<class Scalar>(const TensorPlan& tensor, Scalar) {
    const StoredMatrix<Scalar> stored(source_, tensor.spec);
    MovedMatrix<Scalar> moved(
        stored.rows(), stored.cols(), [&](const Matrix<Scalar>& x) { return stored.left(x); },
        [&](const Matrix<Scalar>& y) { return stored.right(y); });
    executor.transform(tensor, moved);
    result[tensor.spec.name] = frame.look_at(tensor.spec.name, moved);
  };
  for (const auto& tensor : plan.matrices) {
    const StoredTensor* stored = source_.stored(tensor.spec.name);
    if (stored == nullptr || works_in_double(*stored)) {
      look(tensor, double{});
    } else {
      look(tensor, float{});
    }
  }
  for (auto& [name, value] : executor.finish(plan)) result[name] = std::move(value);
  return result;
}

template <class Scalar>
Parameters<Scalar> FramedModel::ends(std::int64_t most) const {
  const LayerPlan plan = plan_of(-1);
  Executor executor(symmetry(), element());
  executor.begin(plan,
                 [&](const TensorPlan& tensor) { return source_.read<double>(tensor.spec.name); });
  Parameters<Scalar> result;
  for (const auto& tensor : plan.matrices) {
    Matrix<Scalar>& value = result[tensor.spec.name];
    const int axis = independent_axis(tensor);
    const std::int64_t step =
        std::max<std::int64_t>(1, (axis == 0 ? tensor.spec.rows : tensor.spec.cols) / most);
    value = axis < 0 || step == 1 ? source_.read<Scalar>(tensor.spec.name)
                                  : some_vectors<Scalar>(source_, tensor.spec, axis, step);
    executor.transform(tensor, value);
  }
  for (auto& [name, value] : executor.finish(plan)) result[name] = value.template cast<Scalar>();
  return result;
}
template Parameters<float> FramedModel::ends(std::int64_t) const;
template Parameters<double> FramedModel::ends(std::int64_t) const;

}  // namespace regauge
