#pragma once

#include "regauge/symmetry/symmetry.h"

namespace regauge {

SymmetryIndex index_of(const Symmetry& symmetry);

// Some layer's heads, neurons, lengths or gauges are those of another, so that what is found of the
// one says something of the other.
bool layers_share_spaces(const Symmetry& symmetry);

}  // namespace regauge
