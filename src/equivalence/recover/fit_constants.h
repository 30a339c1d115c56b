#pragma once

#include "equivalence/read_part.h"

namespace regauge {

// Behind layer norms, the constants of an element that carries B to A but for rounding, once more:
// they were found in standard form, where gains are 1 and constants pass; small gains of A's, or
// constants that hardly pass there, enlarge their errors.
void fit_constants(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
                   const Enlarged& enlarged, Element& a_from_b);

}  // namespace regauge
