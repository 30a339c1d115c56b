#pragma once

#include "regauge/arch/parameters.h"

namespace regauge {

// rows^T Z, [w, width], where Z is a fixed table of few numbers, some 16 in a column and always the
// same; `rows` ([n, w]) are of labelled things such as tokens. A rotation rows -> rows R rotates
// the sketch: R^T (rows^T Z).
Matrix<double> sketch(const Matrix<double>& rows, std::int64_t width);

}  // namespace regauge
