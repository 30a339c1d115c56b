#pragma once

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"
#include "regauge/symmetry/scope.h"

namespace regauge {

// Where the heads of B's delta net belong, and the channels of each: places and signs. `a` and `b`
// are the layer's tensors in comparable form, b moved as far as is known.
template <class Scalar>
Element match_delta_net(const Symmetry& symmetry, std::int64_t layer, const Scope& scope,
                        const Parameters<Scalar>& a, const Parameters<Scalar>& b);

}  // namespace regauge
