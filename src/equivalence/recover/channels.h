#pragma once

#include "regauge/symmetry/element.h"
#include "signature.h"

namespace regauge {

// One row per value head of a layer's delta net: what its channels and those of its key head
// compute, in whatever order these stand.
Matrix<double> delta_signatures(const Architecture& architecture, std::int64_t layer,
                                const Parameters<double>& parameters, const Known& known);

// Where the coordinates of heads belong that are seen one by one, by an output gate or a
// convolution; heads stand in their places. Lengths and signs are left.
Element match_channels(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& a,
                       const Parameters<double>& b, const Known& known, double rounding);

}  // namespace regauge
