#pragma once

#include <string>

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge {

// The root mean square of a tensor. Where it is the last map of a branch, and coordinates of heads
// or lengths of neurons are exchanged with the maps before it, that of what they are together (v
// and o, up and down): no such exchange changes it. `tensors` holds the layer.
double branch_size(const Symmetry& symmetry, const std::string& tensor,
                   const Parameters<double>& tensors);

}  // namespace regauge
