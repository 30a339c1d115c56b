#include "moved_model.h"

#include <fmt/format.h>

#include "regauge/action/executor.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using Read = std::function<Matrix<double>(const std::string&)>;

Parameters<double> run(const Symmetry& symmetry, const Element& element, const LayerPlan& layer,
                       const Read& read) {
  Executor executor(symmetry, element);
  executor.begin(layer, [&](const TensorPlan& tensor) { return read(tensor.spec.name); });
  Parameters<double> result;
  for (const auto& tensor : layer.matrices) {
    Matrix<double>& value = result[tensor.spec.name] = read(tensor.spec.name);
    executor.transform(tensor, value);
  }
  for (auto& [name, value] : executor.finish(layer)) result[name] = std::move(value);
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

Parameters<double> MovedModel::layer(std::int64_t layer) const {
  return run(symmetry_, element_, layer_of(plan_, layer),
             [this](const std::string& name) { return source_.read<double>(name); });
}

Parameters<double> moved_layer(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                               const ReadTensor& read) {
  const Plan plan = make_plan(symmetry, element);
  return run(symmetry, element, layer_of(plan, layer), read);
}

void act_on_layer(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                  Parameters<double>& parameters) {
  const Plan plan = make_plan(symmetry, element);
  parameters = run(symmetry, element, layer_of(plan, layer), [&](const std::string& name) {
    const auto found = parameters.find(name);
    if (found == parameters.end()) {
      throw UsageError(fmt::format("[recover] layer {} alone does not hold {}", layer, name));
    }
    return std::move(found->second);  // each is read once
  });
}

}  // namespace regauge
