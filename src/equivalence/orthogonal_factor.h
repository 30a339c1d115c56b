#pragma once

#include "regauge/symmetry/block_map.h"

namespace regauge {

// The orthogonal matrix nearest to m in its place. Returns the reciprocal of m's condition, or a
// lower bound of it; 0 for a singular m, which is then not changed in any useful way. With
// `coarse`, m is known to five digits at most, and floats will do on the way.
double make_orthogonal(Matrix<double>& m, bool coarse);

}  // namespace regauge
