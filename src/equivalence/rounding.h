#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "regauge/action/plan.h"
#include "regauge/equivalence/compare.h"

namespace regauge {

template <class Scalar>
double rms(const Matrix<Scalar>& value) {
  if (value.size() == 0) return 0;
  return std::sqrt(value.template cast<double>().squaredNorm() / static_cast<double>(value.size()));
}

// The relative rounding of a tensor as it is stored: of its type or, quantised, of its blocks.
double stored_rounding(const ParameterSource& source, const std::string& name);

// A residual says nothing where rounding is much of A's tensor or, if that is zero, of B's: B may
// hold what nothing reads.
bool is_mostly_rounding(const TensorResidual& residual, double size_b);

// The same comparison with several draws of noise where one decides: it tells little where the
// noise is that of a few numbers. `once` makes one, with the draw's number.
using CompareOnce = std::function<std::vector<TensorResidual>(int draw)>;
std::vector<TensorResidual> compare_by_draws(const CompareOnce& once);

// The relative rounding of a model's tensors: each its own or, where an element moves it, that of
// the coarsest matrix, as no element is known better.
class Rounding {
 public:
  explicit Rounding(const ParameterSource& source);
  double coarsest() const { return coarsest_; }
  double of(const TensorPlan& tensor) const;

 private:
  std::map<std::string, double> own_;
  double coarsest_ = 0;
};

// The same entries with noise of this size relative to their row, or to each in a norm's gain;
// always the same for the same name and draw.
template <class Scalar>
Matrix<Scalar> shaken(const std::string& name, int draw, Matrix<Scalar> value, double rounding);
// An element whose constants were read off two models, as well as these are known.
Element shaken(Element element, int draw, double rounding);

}  // namespace regauge
