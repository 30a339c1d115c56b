#pragma once

#include "regauge/equivalence/compare.h"

namespace regauge {

// compare_in_place() of one tensor.
TensorResidual compare_tensor_in_place(const ParameterSpec& spec, const ParameterSource& a,
                                       const ParameterSource& b,
                                       Progress& progress = Progress::silent());

}  // namespace regauge
