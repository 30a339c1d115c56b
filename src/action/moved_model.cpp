#include "moved_model.h"

#include <fmt/format.h>

#include "executor.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

template <class Scalar>
Parameters<Scalar> run(const Symmetry& symmetry, const Element& element, const LayerPlan& layer,
                       const ReadTensor& read) {
  Executor executor(symmetry, element);
  executor.begin(layer, [&](const TensorPlan& tensor) { return read(tensor.spec.name); });
  Parameters<Scalar> result;
  for (const auto& tensor : layer.matrices) {
    Matrix<Scalar>& value = result[tensor.spec.name] = as<Scalar>(read.any(tensor.spec.name));
    executor.transform(tensor, value);
  }
  for (auto& [name, value] : executor.finish(layer)) {
    result[name] = value.template cast<Scalar>();
  }
  return result;
}

}  // namespace

MovedModel::MovedModel(ReadTensor read, const Symmetry& symmetry, Element element)
    : read_(std::move(read)), symmetry_(symmetry), element_(std::move(element)) {
  check_shapes(symmetry_, element_);
}

LayerPlan MovedModel::plan_of(std::int64_t layer) const {
  return make_layer_plan(symmetry_, element_, layer);
}

template <class Scalar>
Parameters<Scalar> MovedModel::layer(std::int64_t layer) const {
  return run<Scalar>(symmetry_, element_, plan_of(layer), read_);
}
template Parameters<float> MovedModel::layer(std::int64_t) const;
template Parameters<double> MovedModel::layer(std::int64_t) const;

Parameters<double> moved_layer(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                               const ReadTensor& read) {
  check_shapes(symmetry, element);
  return run<double>(symmetry, element, make_layer_plan(symmetry, element, layer), read);
}

template <class Scalar>
void act_on_layer(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                  Parameters<Scalar>& parameters) {
  check_shapes(symmetry, element);
  const LayerPlan plan = make_layer_plan(symmetry, element, layer);
  parameters = run<Scalar>(symmetry, element, plan, [&](std::string_view name) {
    const auto found = parameters.find(std::string(name));
    if (found == parameters.end()) {
      throw UsageError(fmt::format("[action] layer {} alone does not hold {}", layer, name));
    }
    return std::move(found->second);  // each is read once
  });
}
template void act_on_layer(const Symmetry&, const Element&, std::int64_t, Parameters<float>&);
template void act_on_layer(const Symmetry&, const Element&, std::int64_t, Parameters<double>&);

}  // namespace regauge
