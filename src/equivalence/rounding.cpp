#include "rounding.h"

#include <algorithm>

#include "io/rounding.h"
#include "regauge/equivalence/compare.h"
#include "regauge/io/packing.h"
#include "tolerances.h"

namespace regauge {

double rounding_of(const StoredTensor& tensor) {
  return tensor.packing ? tensor.packing->typical_rounding() : rounding_of(tensor.dtype);
}

bool stored_alike(const StoredTensor& a, const StoredTensor& b) {
  return a.type_name() == b.type_name() && !(a.packing && a.packing->is_calculated());
}

double coarsest_rounding(const ParameterSource& source) {
  double coarsest = 0;
  for (const auto& spec : parameter_specs(source.architecture())) {
    const StoredTensor* tensor = spec.rows > 1 ? source.stored(spec.name) : nullptr;
    if (tensor != nullptr) coarsest = std::max(coarsest, rounding_of(*tensor));
  }
  return coarsest;
}

double type_hides(const ParameterSource& a, const ParameterSource& b, const std::string& tensor) {
  double most = 0;
  for (const auto* source : {&a, &b}) {
    const StoredTensor* stored = source->stored(tensor);
    if (stored == nullptr || codes_are_joint(stored->dtype)) continue;  // they hide too much
    const double rounding = rounding_of(*stored);
    if (rounding <= kTooCoarse) most = std::max(most, kMostHiddenByType * rounding);
  }
  return most;
}

double most_hidden(const ParameterSource& a, const ParameterSource& b, const std::string& tensor) {
  return std::max(kMostHidden, type_hides(a, b, tensor));
}

Matrix<double> perturbed(const std::string& name, Matrix<double> value,
                         const Matrix<double>& variances) {
  Random random(0, "rounding/" + name);
  for (Eigen::Index i = 0; i < value.size(); ++i) {
    value.data()[i] += (random.uniform() - 0.5) * std::sqrt(12 * variances.data()[i]);
  }
  return value;
}

Element perturbed(Element element, double rounding) {
  for (auto& [name, vector] : element.shifts) {
    const double variance = std::pow(rounding * rms<double>(vector), 2);
    vector =
        perturbed(name, vector, Matrix<double>::Constant(vector.rows(), vector.cols(), variance));
  }
  return element;
}

}  // namespace regauge
