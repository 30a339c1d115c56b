#pragma once

#include <string>
#include <vector>

#include "regauge/arch/parameter_source.h"
#include "regauge/base/progress.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// The element that carries a model to the one representative of its orbit: if A = g B, both arrive
// at the same numbers but for rounding.
struct Canon {
  Element element;
  // What rounding decides: two equal models may differ there.
  std::vector<std::string> limits;
};

// Shifts used up and norms folded (standard_form), lengths that norms forget set to 1, heads and
// neurons balanced and put in the order of their size. Rotations that are then left (of the stream,
// of heads, of rotary pairs, signs) bring the model as near as they can to a fixed table of
// numbers: the nearest rotation is unique and steady, where eigenvectors are not. A layer in memory
// at a time. Throws UsageError where a gain is 0.
Canon canon(const Symmetry& symmetry, const ParameterSource& source, Progress& progress);

}  // namespace regauge
