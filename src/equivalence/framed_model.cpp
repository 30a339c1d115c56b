#include "framed_model.h"

#include "regauge/action/executor.h"

namespace regauge {

Parameters<double> FramedModel::layer(std::int64_t layer, const Frame& frame) const {
  if (frame.is_whole()) return MovedModel::layer(layer);
  const LayerPlan& plan = plan_of(layer);
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
    if (stored == nullptr || works_in_double(stored->dtype)) {
      look(tensor, double{});
    } else {
      look(tensor, float{});
    }
  }
  for (auto& [name, value] : executor.finish(plan)) result[name] = std::move(value);
  return result;
}

}  // namespace regauge
