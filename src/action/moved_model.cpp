#include "moved_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "executor.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

// Some vector takes a constant that this matrix gives up.
bool gives_constants(const TensorPlan& tensor) {
  return std::any_of(tensor.shifts.begin(), tensor.shifts.end(),
                     [](const Step& step) { return !step.effect.target.empty(); });
}

template <class Scalar>
Parameters<Scalar> run(const Symmetry& symmetry, const Element& element, const LayerPlan& layer,
                       const ReadTensor& read, const Wanted& wanted) {
  Executor executor(symmetry, element);
  executor.begin(layer, [&](const TensorPlan& tensor) { return read(tensor.spec.name); });
  Parameters<Scalar> result;
  for (const auto& tensor : layer.matrices) {
    const bool keep = !wanted || wanted(tensor.spec.name);
    if (!keep && !gives_constants(tensor)) continue;
    Matrix<Scalar> value = as<Scalar>(read.any(tensor.spec.name));
    executor.transform(tensor, value);
    if (keep) result[tensor.spec.name] = std::move(value);
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
Parameters<Scalar> MovedModel::layer(std::int64_t layer, const Wanted& wanted) const {
  return moved_layer<Scalar>(symmetry_, element_, layer, read_, wanted);
}
template Parameters<float> MovedModel::layer(std::int64_t, const Wanted&) const;
template Parameters<double> MovedModel::layer(std::int64_t, const Wanted&) const;

template <class Scalar>
Parameters<Scalar> moved_layer(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                               const ReadTensor& read, const Wanted& wanted) {
  return run<Scalar>(symmetry, element, make_layer_plan(symmetry, element, layer), read, wanted);
}
template Parameters<float> moved_layer(const Symmetry&, const Element&, std::int64_t,
                                       const ReadTensor&, const Wanted&);
template Parameters<double> moved_layer(const Symmetry&, const Element&, std::int64_t,
                                        const ReadTensor&, const Wanted&);

template <class Scalar>
void act_on_layer(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                  Parameters<Scalar>& parameters) {
  const LayerPlan plan = make_layer_plan(symmetry, element, layer);
  const auto take = [&](std::string_view name) {
    const auto found = parameters.find(std::string(name));
    if (found == parameters.end()) {
      throw UsageError(fmt::format("[action] layer {} alone does not hold {}", layer, name));
    }
    return std::move(found->second);  // each is read once
  };
  parameters = run<Scalar>(symmetry, element, plan, take,
                           [&](const std::string& matrix) { return parameters.contains(matrix); });
}
template void act_on_layer(const Symmetry&, const Element&, std::int64_t, Parameters<float>&);
template void act_on_layer(const Symmetry&, const Element&, std::int64_t, Parameters<double>&);

}  // namespace regauge
