#include "rounding.h"

#include <algorithm>
#include <cmath>

#include "regauge/io/quantisation.h"

namespace regauge {
namespace {

constexpr double kMostInPlace = 0.1;
constexpr double kMostMoved = 0.2;
constexpr int kDraws = 5;
constexpr double kClose = 30;

}  // namespace

double stored_rounding(const ParameterSource& source, const std::string& name) {
  const StoredTensor* tensor = source.stored(name);
  if (tensor == nullptr) return 0;
  if (!is_quantised(tensor->dtype)) return rounding_of(tensor->dtype);
  return quantisation_error(tensor->dtype, source.model().checkpoint.bytes(*tensor));
}

bool is_mostly_rounding(const TensorResidual& r, double size_b) {
  return r.rounding > (r.in_place ? kMostInPlace : kMostMoved) * (r.size > 0 ? r.size : size_b);
}

std::vector<TensorResidual> compare_by_draws(const CompareOnce& once) {
  auto residuals = once(0);
  const auto is_close = [](const TensorResidual& r) { return !r.agrees() && r.excess() < kClose; };
  if (std::none_of(residuals.begin(), residuals.end(), is_close)) return residuals;
  std::vector<double> squares(residuals.size());
  for (int draw = 1; draw < kDraws; ++draw) {
    const auto others = once(draw);
    for (std::size_t i = 0; i < others.size(); ++i) squares[i] += std::pow(others[i].rounding, 2);
  }
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    double& rounding = residuals[i].rounding;
    rounding = std::sqrt((rounding * rounding + squares[i]) / kDraws);
  }
  return residuals;
}

Rounding::Rounding(const ParameterSource& source) {
  for (const auto& spec : parameter_specs(source.architecture())) {
    own_[spec.name] = stored_rounding(source, spec.name);
    if (spec.rows > 1) coarsest_ = std::max(coarsest_, own_[spec.name]);
  }
}

double Rounding::of(const TensorPlan& tensor) const {
  const double rounding = own_.at(tensor.spec.name);
  return tensor.touched() ? std::max(rounding, coarsest_) : rounding;
}

template <class Scalar>
Matrix<Scalar> shaken(const std::string& name, int draw, Matrix<Scalar> value, double rounding) {
  // A small gain is known as well as a large one.
  const bool own = name.ends_with("norm.gain");
  Random random(static_cast<std::uint64_t>(draw), "rounding/" + name);
  for (Eigen::Index i = 0; i < value.rows(); ++i) {
    const double size = rms<Scalar>(value.row(i));
    for (auto& entry : value.row(i).reshaped()) {
      // Even numbers with the right variance do: sqrt(3) (2u - 1).
      const double noise = rounding * std::sqrt(3.0) * (2 * random.uniform() - 1);
      entry += static_cast<Scalar>(noise * (own ? static_cast<double>(entry) : size));
    }
  }
  return value;
}
template Matrix<float> shaken(const std::string&, int, Matrix<float>, double);
template Matrix<double> shaken(const std::string&, int, Matrix<double>, double);

Element shaken(Element element, int draw, double rounding) {
  for (auto& [name, vector] : element.shifts) vector = shaken<double>(name, draw, vector, rounding);
  return element;
}

}  // namespace regauge
