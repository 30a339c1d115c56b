#pragma once

#include <string>
#include <vector>

#include "regauge/arch/parameter_source.h"
#include "regauge/base/progress.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// The element that carries B to A if there is one; for other pairs some element that brings parts
// of B near to A. A guess, to be judged by compare_sketched() or compare().
struct Recovery {
  Element a_from_b;
  // What the method could not determine: if the guess fails, another element may exist.
  std::vector<std::string> limits;
};

// `a` and `b` are read as symmetry.architecture, a layer at a time, and differ by noise of this
// relative size. Throws NoStandardForm where a model has none (a gain that is 0).
Recovery recover(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
                 double rounding, Progress& progress);

}  // namespace regauge
