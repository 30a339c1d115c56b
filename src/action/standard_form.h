#pragma once

#include <string>
#include <vector>

#include "regauge/arch/parameter_source.h"
#include "regauge/arch/parameters.h"
#include "regauge/base/progress.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// Of a shift that has no standard form yet: an error, or it stays and is one of the limits.
enum class UnknownShifts { refused, kept };

// The element that brings a model to its standard form: norms folded, numbers on the stream
// positive and, by every shift, one quantity made zero (a bias, a mean, a constant) that basis
// changes carry along. If A = g B, the standard forms of both differ by a basis change alone,
// without any shift; `sign` is -1 for one of them if all coordinates of the stream change theirs in
// between.
// `limits` receives where the form loses digits.
Element standard_form(const ReadTensor& read, const Symmetry& symmetry, double sign,
                      std::vector<std::string>& limits, Progress& progress,
                      UnknownShifts unknown = UnknownShifts::refused);
inline Element standard_form(const ParameterSource& source, const Symmetry& symmetry, double sign,
                             std::vector<std::string>& limits, Progress& progress) {
  return standard_form(source.reader(), symmetry, sign, limits, progress);
}

// Where a component that nothing reads was taken away, rounding of it remains: sets to zero what is
// not larger, in a layer's matrices by vectors of the stream.
void clear_rounding(const Symmetry& symmetry, double size, Parameters<double>& layer);

}  // namespace regauge
