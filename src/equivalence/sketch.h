#pragma once

#include "regauge/arch/parameters.h"

namespace regauge {

// rows^T Z, [w, width], where Z is a fixed table of few numbers, some 16 in a column and always the
// same; `rows` ([n, w]) are of labelled things such as tokens. A turn rows -> rows R turns the
// sketch: R^T (rows^T Z).
Matrix<double> sketch(const Matrix<double>& rows, std::int64_t width);

// The orthogonal matrix nearest to m, inside the algebra that holds m; the identity where m is
// zero.
Matrix<double> nearest_turn(const Matrix<double>& m);
// The same in place for one as wide as the stream. Returns the reciprocal of m's condition, 0 for a
// singular m, which is left undefined.
double turn_nearest(Matrix<double>& m);

}  // namespace regauge
