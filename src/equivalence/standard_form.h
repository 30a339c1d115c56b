#pragma once

#include <string>
#include <vector>

#include "regauge/action/rewrite.h"

namespace regauge {

// The element that brings a model to its standard form: norms folded and, by every shift, one
// quantity made zero (a bias, a mean, a constant) that basis changes carry along. If A = g B, the
// standard forms of both differ by a basis change alone, without any shift. `limits` receives where
// the form loses digits.
Element standard_form(const ParameterSource& source, const Symmetry& symmetry,
                      std::vector<std::string>& limits, Progress& progress);

}  // namespace regauge
