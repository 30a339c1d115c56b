#pragma once

#include <vector>

#include "regauge/equivalence/compare.h"

namespace regauge {

// Two maps that follow each other act by their product (v and o, q and k, up and down, a latent and
// what reads it), and the
// product is off by what both are off. Where rounding is more of a product than it may be of a
// tensor, moved factors that agree become Relation::hidden.
void hide_coarse_products(const ParameterSource& a, const ParameterSource& b,
                          std::vector<TensorResidual>& residuals);

}  // namespace regauge
