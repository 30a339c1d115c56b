#include "experts.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace regauge {
namespace {

// The sum of the `count` largest of some numbers.
template <class Scalar>
Scalar leading_sum(std::vector<Scalar> numbers, std::int64_t count) {
  const auto last = numbers.begin() + count;
  std::partial_sort(numbers.begin(), last, numbers.end(), std::greater<>());
  return std::accumulate(numbers.begin(), last, Scalar{0});
}

// The places of the `count` largest numbers.
template <class Scalar>
std::vector<std::size_t> largest(const std::vector<Scalar>& numbers, std::int64_t count) {
  std::vector<std::size_t> places(numbers.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::partial_sort(places.begin(), places.begin() + count, places.end(),
                    [&](std::size_t i, std::size_t j) { return numbers[i] > numbers[j]; });
  places.resize(static_cast<std::size_t>(count));
  return places;
}

// Scores as they are compared: those outside the best groups count as nothing.
template <class Scalar>
void keep_best_groups(const Experts& experts, std::vector<Scalar>& scores) {
  if (!experts.has_groups()) return;
  const std::int64_t size = experts.count / experts.groups;
  std::vector<Scalar> ranks;
  for (std::int64_t g = 0; g < experts.groups; ++g) {
    const auto begin = scores.begin() + g * size;
    ranks.push_back(leading_sum(std::vector<Scalar>(begin, begin + size), experts.group_leaders));
  }
  const auto best = largest(ranks, experts.active_groups);
  for (std::size_t e = 0; e < scores.size(); ++e) {
    const std::size_t group = e / static_cast<std::size_t>(size);
    if (std::ranges::find(best, group) == best.end()) {
      scores[e] = -std::numeric_limits<Scalar>::infinity();
    }
  }
}

}  // namespace

bool groups_bind(const Experts& experts) {
  return experts.has_groups() &&
         (experts.group_leaders > 1 || experts.active > experts.active_groups);
}

template <class Scalar>
Matrix<Scalar> expert_weights(const Experts& experts, const Matrix<Scalar>& logits,
                              const Matrix<Scalar>* selection) {
  Matrix<Scalar> weights = Matrix<Scalar>::Zero(logits.rows(), logits.cols());
  std::vector<Scalar> compared(static_cast<std::size_t>(logits.cols()));
  for (Eigen::Index t = 0; t < logits.rows(); ++t) {
    Eigen::RowVector<Scalar, Eigen::Dynamic> scores = logits.row(t);
    if (experts.scoring == Scoring::sigmoid) {
      scores = 1 / (1 + (-scores.array()).exp());
    } else {
      scores = (scores.array() - scores.maxCoeff()).exp();
      scores /= scores.sum();
    }
    std::copy(scores.begin(), scores.end(), compared.begin());
    for (std::size_t e = 0; selection != nullptr && e < compared.size(); ++e) {
      compared[e] += (*selection)(0, static_cast<Eigen::Index>(e));
    }
    keep_best_groups(experts, compared);
    auto row = weights.row(t);
    for (const std::size_t e : largest(compared, experts.active)) {
      row(static_cast<Eigen::Index>(e)) = scores(static_cast<Eigen::Index>(e));
    }
    if (experts.renormalised) row /= row.sum();
    row *= static_cast<Scalar>(experts.weight_scale);
  }
  return weights;
}

template Matrix<float> expert_weights(const Experts&, const Matrix<float>&, const Matrix<float>*);
template Matrix<double> expert_weights(const Experts&, const Matrix<double>&,
                                       const Matrix<double>*);

}  // namespace regauge
