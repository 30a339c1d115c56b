#pragma once

#include "regauge/symmetry/symmetry.h"

namespace regauge {

SymmetryIndex index_of(const Symmetry& symmetry);

}  // namespace regauge
