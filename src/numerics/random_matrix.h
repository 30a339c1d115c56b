#pragma once

#include "regauge/base/random.h"
#include "regauge/numerics/matrix.h"

namespace regauge {

// Gaussian entries; the orthogonal factor of such a matrix, Haar distributed; U diag(2^[-1,1]) V.
Matrix<double> random_gaussian(std::int64_t size, Random& random);
Matrix<double> random_rotation(std::int64_t size, Random& random);
Matrix<double> random_invertible(std::int64_t size, Random& random);

}  // namespace regauge
