#pragma once

#include <cmath>

#include "regauge/action/rewrite.h"

namespace regauge {

template <class Scalar>
double rms(const Matrix<Scalar>& value) {
  if (value.size() == 0) return 0;
  return std::sqrt(value.template cast<double>().squaredNorm() / static_cast<double>(value.size()));
}

// The relative rounding of a model's tensors: each its own or, where an element moves it, that of
// the coarsest matrix, as no element is known better.
class Rounding {
 public:
  explicit Rounding(const ParameterSource& source);
  double coarsest() const { return coarsest_; }
  double of(const TensorPlan& tensor) const;

 private:
  double own(const std::string& name) const;
  const ParameterSource& source_;
  double coarsest_ = 0;
};

// The same entries with noise of this relative size; always the same noise for the same name.
template <class Scalar>
Matrix<Scalar> shaken(const std::string& name, Matrix<Scalar> value, double rounding);
// An element whose constants were read off two models, as well as these are known.
Element shaken(Element element, double rounding);

}  // namespace regauge
