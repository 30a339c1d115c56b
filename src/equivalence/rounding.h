#pragma once

#include <cmath>
#include <string>

#include "regauge/arch/parameter_source.h"
#include "regauge/symmetry/element.h"

namespace regauge {

template <class Scalar>
double rms(const Matrix<Scalar>& value) {
  if (value.size() == 0) return 0;
  return std::sqrt(value.template cast<double>().squaredNorm() / static_cast<double>(value.size()));
}

// As rounding_of a type; of a packed tensor that of its packing.
double rounding_of(const StoredTensor& tensor);
// Both are stored in one type, so that nothing was rounded between them: equal, or different.
bool stored_alike(const StoredTensor& a, const StoredTensor& b);
// A typical relative rounding of a model's matrices: that of the coarsest type.
double coarsest_rounding(const ParameterSource& source);

// How much of a tensor the rounding of its coarser type may be, wherever the tensor stands.
double type_hides(const ParameterSource& a, const ParameterSource& b, const std::string& tensor);
// How much of a tensor its rounding may be in both, relative to its size (tolerances.h).
double most_hidden(const ParameterSource& a, const ParameterSource& b, const std::string& tensor);

// The same numbers with noise of these variances; always the same for the same name.
Matrix<double> perturbed(const std::string& name, Matrix<double> value,
                         const Matrix<double>& variances);
// An element whose constants were read off two models of this relative rounding.
Element perturbed(Element element, double rounding);

}  // namespace regauge
