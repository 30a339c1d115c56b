#pragma once

#include "regauge/symmetry/element.h"

namespace regauge {

// An element that was read off two models of this relative rounding, with every map that is the
// identity, a permutation or signs within that made exactly so: it could explain a small change
// as a small move, and mixes numbers that were only moved.
Element without_noise(const Symmetry& symmetry, const Element& element, double rounding);

}  // namespace regauge
