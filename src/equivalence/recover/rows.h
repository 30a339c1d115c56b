#pragma once

#include <vector>

#include "regauge/numerics/matrix.h"

namespace regauge {

// Rows that stand for parts of a layer.

Matrix<double> side_by_side(const std::vector<Matrix<double>>& parts);
// Every row `times` times.
Matrix<double> repeated(const Matrix<double>& rows, std::int64_t times);
// Runs of `size` rows by what they have together, in whatever order.
Matrix<double> summed_runs(const Matrix<double>& rows, std::int64_t size);

}  // namespace regauge
