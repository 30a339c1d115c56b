#pragma once

#include "regauge/arch/architecture.h"
#include "regauge/arch/parameters.h"

namespace regauge {

// Every entry, in its place.
template <class Scalar>
void activate(Activation activation, Matrix<Scalar>& values);

}  // namespace regauge
