#include "regauge/arch/experts.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace regauge {

template <class Scalar>
Matrix<Scalar> expert_weights(const Experts& experts, const Matrix<Scalar>& logits) {
  Matrix<Scalar> weights(logits.rows(), logits.cols());
  std::vector<Scalar> sorted(static_cast<std::size_t>(logits.cols()));
  for (Eigen::Index t = 0; t < logits.rows(); ++t) {
    auto row = weights.row(t);
    row = (logits.row(t).array() - logits.row(t).maxCoeff()).exp();
    row /= row.sum();
    std::copy(row.begin(), row.end(), sorted.begin());
    const auto last = sorted.begin() + experts.active - 1;
    std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
    for (auto& weight : row) weight = weight < *last ? Scalar{0} : weight;
    if (experts.renormalised) row /= row.sum();
  }
  return weights;
}

template Matrix<float> expert_weights(const Experts&, const Matrix<float>&);
template Matrix<double> expert_weights(const Experts&, const Matrix<double>&);

}  // namespace regauge
