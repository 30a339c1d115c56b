#pragma once

#include "regauge/connect/align_models.h"
#include "regauge/lab/line.h"

namespace regauge::connect {

nlohmann::json to_json(const lab::Line& line);

// element . model, in memory. Instantiated for float and double.
template <class Scalar>
Parameters<Scalar> moved_parameters(const ParameterSource& model, const Symmetry& symmetry,
                                    const Element& element);

// |A - B| / |A| of every tensor that is not zero in A.
nlohmann::json residuals(const Parameters<float>& a, const Parameters<float>& b);

}  // namespace regauge::connect
