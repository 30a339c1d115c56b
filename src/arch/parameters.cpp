#include "regauge/arch/parameters.h"

#include <cmath>

namespace regauge {

Parameters<double> random_parameters(const Architecture& architecture, std::uint64_t seed) {
  Parameters<double> parameters;
  for (const auto& spec : parameter_specs(architecture)) {
    Random random(seed, spec.name);
    const bool gain = spec.name.ends_with(".gain") || spec.name.ends_with(".scale");
    const double spread = spec.rows == 1 ? 0.3 : 1 / std::sqrt(static_cast<double>(spec.rows));
    Matrix<double> value(spec.rows, spec.cols);
    for (auto& entry : value.reshaped<Eigen::RowMajor>()) {
      entry = gain ? 0.6 + 0.8 * random.uniform() : spread * random.normal();
    }
    parameters.emplace(spec.name, std::move(value));
  }
  return parameters;
}

}  // namespace regauge
