#pragma once

#include <Eigen/Core>

namespace regauge {

// Row by row, as files have them.
template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace regauge
