#include "sketch.h"

#include <algorithm>

#include "regauge/symmetry/block_map.h"

namespace regauge {
namespace {

constexpr std::int64_t kPerColumn = 16;

}  // namespace

Matrix<double> sketch(const Matrix<double>& rows, std::int64_t width) {
  Matrix<double> result = Matrix<double>::Zero(width, rows.cols());  // rows are contiguous
  const auto entries = std::max<std::int64_t>(1, kPerColumn * width / rows.rows());
  Random random(0, "canon");
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    for (std::int64_t n = 0; n < entries; ++n) {
      const auto column = static_cast<Eigen::Index>(random.below(width));
      result.row(column) += (2 * random.uniform() - 1) * rows.row(i);
    }
  }
  return result.transpose();
}

}  // namespace regauge
