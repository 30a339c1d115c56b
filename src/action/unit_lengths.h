#pragma once

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// Whether the model has lengths that norms forget (eps = 0) and that balance() does not settle.
bool has_free_lengths(const Symmetry& symmetry);

// Such lengths of a layer's tensors (-1: of embedding and head) become a root mean square of 1 in
// the first tensor that has them. Spaces that `known` names are done.
Element unit_lengths(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& given,
                     const Element& known);

}  // namespace regauge
