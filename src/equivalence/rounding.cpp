#include "rounding.h"

#include <algorithm>
#include <cmath>

#include "regauge/equivalence/compare.h"

namespace regauge {

Rounding::Rounding(const ParameterSource& source) : source_(source) {
  for (const auto& spec : parameter_specs(source.architecture())) {
    if (spec.rows > 1) coarsest_ = std::max(coarsest_, own(spec.name));
  }
}

double Rounding::of(const TensorPlan& tensor) const {
  const double rounding = own(tensor.spec.name);
  return tensor.touched() ? std::max(rounding, coarsest_) : rounding;
}

double Rounding::own(const std::string& name) const {
  const StoredTensor* tensor = source_.stored(name);
  return tensor == nullptr ? 0 : rounding_of(tensor->dtype);
}

template <class Scalar>
Matrix<Scalar> shaken(const std::string& name, Matrix<Scalar> value, double rounding) {
  // Even numbers with the right variance do: sqrt(3) (2u - 1).
  const double size = rounding * rms(value) * std::sqrt(3.0);
  if (size == 0) return value;
  Random random(0, "rounding/" + name);
  for (auto& entry : value.reshaped()) {
    entry += static_cast<Scalar>(size * (2 * random.uniform() - 1));
  }
  return value;
}
template Matrix<float> shaken(const std::string&, Matrix<float>, double);
template Matrix<double> shaken(const std::string&, Matrix<double>, double);

Element shaken(Element element, double rounding) {
  for (auto& [name, vector] : element.shifts) vector = shaken<double>(name, vector, rounding);
  return element;
}

}  // namespace regauge
