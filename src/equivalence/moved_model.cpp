#include "moved_model.h"

#include <fmt/format.h>

#include "regauge/action/executor.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

template <class Scalar>
using Read = std::function<Matrix<Scalar>(const std::string&)>;

template <class Scalar>
Parameters<Scalar> run(const Symmetry& symmetry, const Element& element, const LayerPlan& layer,
                       const Read<Scalar>& read, const Read<double>& read_row) {
  Executor executor(symmetry, element);
  executor.begin(layer, [&](const TensorPlan& tensor) { return read_row(tensor.spec.name); });
  Parameters<Scalar> result;
  for (const auto& tensor : layer.matrices) {
    Matrix<Scalar>& value = result[tensor.spec.name] = read(tensor.spec.name);
    executor.transform(tensor, value);
  }
  for (auto& [name, value] : executor.finish(layer)) result[name] = value.template cast<Scalar>();
  return result;
}

const LayerPlan& layer_of(const Plan& plan, std::int64_t layer) {
  return plan.layers[static_cast<std::size_t>(layer + 1)];
}

}  // namespace

MovedModel::MovedModel(const ParameterSource& source, const Symmetry& symmetry, Element element)
    : source_(source),
      symmetry_(symmetry),
      element_(std::move(element)),
      plan_(make_plan(symmetry, element_)) {}

template <class Scalar>
Parameters<Scalar> MovedModel::layer(std::int64_t layer) const {
  return run<Scalar>(
      symmetry_, element_, layer_of(plan_, layer),
      [this](const std::string& name) { return source_.read<Scalar>(name); },
      [this](const std::string& name) { return source_.read<double>(name); });
}
template Parameters<float> MovedModel::layer(std::int64_t) const;
template Parameters<double> MovedModel::layer(std::int64_t) const;

Parameters<double> MovedModel::layer(std::int64_t layer, const Frame& frame) const {
  if (frame.is_whole()) return this->layer(layer);
  const LayerPlan& plan = layer_of(plan_, layer);
  Executor executor(symmetry_, element_);
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

Parameters<double> moved_layer(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                               const ReadTensor& read) {
  const Plan plan = make_plan(symmetry, element);
  return run<double>(symmetry, element, layer_of(plan, layer), read, read);
}

void act_on_layer(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                  Parameters<double>& parameters) {
  const Plan plan = make_plan(symmetry, element);
  const Read<double> read = [&](const std::string& name) {
    const auto found = parameters.find(name);
    if (found == parameters.end()) {
      throw UsageError(fmt::format("[recover] layer {} alone does not hold {}", layer, name));
    }
    return std::move(found->second);  // each is read once
  };
  parameters = run<double>(symmetry, element, layer_of(plan, layer), read, read);
}

}  // namespace regauge
