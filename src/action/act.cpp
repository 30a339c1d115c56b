#include "regauge/action/act.h"

#include "executor.h"

namespace regauge {

template <class Scalar>
void act(const Symmetry& symmetry, const Element& element, Parameters<Scalar>& parameters) {
  const Plan plan = make_plan(symmetry, element);
  Executor executor(symmetry, element);
  Parameters<Scalar> result;
  for (const auto& layer : plan.layers) {
    executor.begin(layer, [&](const TensorPlan& tensor) -> Matrix<double> {
      return parameters.at(tensor.spec.name).template cast<double>();
    });
    for (const auto& tensor : layer.matrices) {
      Matrix<Scalar>& value = result[tensor.spec.name] = parameters.at(tensor.spec.name);
      executor.transform(tensor, value);
    }
    for (const auto& [name, value] : executor.finish(layer)) {
      result[name] = value.template cast<Scalar>();
    }
  }
  parameters = std::move(result);
}

template void act(const Symmetry&, const Element&, Parameters<float>&);
template void act(const Symmetry&, const Element&, Parameters<double>&);

}  // namespace regauge
