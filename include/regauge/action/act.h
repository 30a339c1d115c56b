#pragma once

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// element . parameters, in place: a left action, act(g h, x) = act(g, act(h, x)). Every canonical
// tensor of the architecture must be there.
template <class Scalar>
void act(const Symmetry& symmetry, const Element& element, Parameters<Scalar>& parameters);

}  // namespace regauge
