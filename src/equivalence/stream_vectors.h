#pragma once

#include <algorithm>
#include <limits>

#include "regauge/symmetry/symmetry.h"

namespace regauge {

// The vectors of a tensor that live in the stream, as rows: at most `most` of them, evenly spaced.
// A pinned tensor counts from the fixed origin. What a layer norm does not see, or only as a
// constant, is left out.
template <class Scalar>
Matrix<Scalar> stream_vectors(const Symmetry& symmetry, const std::string& name, int axis,
                              const Matrix<Scalar>& tensor,
                              std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  const std::int64_t all = axis == 1 ? tensor.rows() : tensor.cols();
  const std::int64_t step = std::max<std::int64_t>(1, all / most);
  const auto chosen = Eigen::seqN(0, all / step, step);
  Matrix<Scalar> rows = axis == 1 ? Matrix<Scalar>(tensor(chosen, Eigen::all))
                                  : Matrix<Scalar>(tensor(Eigen::all, chosen).transpose());
  if (axis == 1 && symmetry.tensors.at(name).pinned) {
    for (Eigen::Index i = 0; i < rows.cols(); ++i) {
      rows.col(i).array() += static_cast<Scalar>(fixed_origin(symmetry.architecture, name, i));
    }
  }
  if (symmetry.architecture.norm == Norm::layer) rows.colwise() -= rows.rowwise().mean().eval();
  return rows;
}

}  // namespace regauge
