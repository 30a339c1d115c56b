#pragma once

#include "regauge/numerics/matrix.h"

namespace regauge {

// U of m = U H: the orthogonal matrix nearest to m. Directions in which m vanishes are completed at
// will. Throws UsageError unless m is square and finite.
Matrix<double> polar_factor(const Matrix<double>& m);

// The sum of the singular values: <cross, polar_factor(cross)>.
double nuclear_norm(const Matrix<double>& cross);

// polar_factor in its place, for one as wide as the stream that should have full rank. Returns the
// reciprocal of m's condition, or a lower bound of it; 0 for a singular m, which is then not
// changed in any useful way. With `coarse`, m is known to five digits at most, and floats will do
// on the way.
double make_orthogonal(Matrix<double>& m, bool coarse);

}  // namespace regauge
