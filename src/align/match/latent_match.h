#pragma once

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"
#include "regauge/symmetry/scope.h"

namespace regauge {

// The rotations of the layer's latents: by what writes them, and where `known` names them already,
// so that heads have been matched, by what reads them, too.
template <class Scalar>
Element match_latents(const Symmetry& symmetry, std::int64_t layer, const Scope& scope,
                      const Parameters<Scalar>& a, const Parameters<Scalar>& b,
                      const Element& known);

}  // namespace regauge
