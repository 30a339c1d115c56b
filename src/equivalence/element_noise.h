#pragma once

#include <set>
#include <string>
#include <vector>

#include "regauge/equivalence/compare.h"

namespace regauge {

// Spaces that an element which carries B to A leaves alone: most matrices that live there are the
// same where they stand. `in_place` is in the order of
// parameter_specs.
std::set<std::string> spaces_that_stay(const Symmetry& symmetry,
                                       const std::vector<TensorResidual>& in_place);

// An element that was read off two models of this relative rounding, with every map that is the
// identity, a permutation or signs within that made exactly so: it could explain a small change
// as a small move, and mixes numbers that were only moved.
// The maps of `stay` are left out.
Element without_noise(const Symmetry& symmetry, const Element& element, double rounding,
                      const std::set<std::string>& stay);

}  // namespace regauge
