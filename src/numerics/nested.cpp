#include "nested.h"

#include "assignment.h"
#include "regauge/base/error.h"

namespace regauge {

NestedAssignment assign_rows(const Matrix<double>& similarity) {
  const Matrix<float> rounded = similarity.cast<float>();
  const Assignment found = assign({similarity.rows(), rounded.data()});
  NestedAssignment result{found.column_of_row, 0};
  for (Eigen::Index i = 0; i < similarity.rows(); ++i) {
    result.value += similarity(i, result.target[static_cast<std::size_t>(i)]);
  }
  return result;
}

NestedAssignment assign_nested(const Matrix<double>& members, const Matrix<double>& groups,
                               std::int64_t bundles) {
  const auto count = groups.rows();
  if (count == 0 || groups.cols() != count || members.rows() != members.cols() ||
      members.rows() % count != 0 || bundles < 1 || count % bundles != 0) {
    throw UsageError("[assign_nested] members and groups do not fit each other");
  }
  const auto size = members.rows() / count;
  std::vector<NestedAssignment> inner;
  Matrix<double> worth = groups;
  for (Eigen::Index i = 0; i < count; ++i) {
    for (Eigen::Index j = 0; j < count; ++j) {
      inner.push_back(assign_rows(members.block(i * size, j * size, size, size)));
      worth(i, j) += inner.back().value;
    }
  }
  const NestedAssignment outer = bundles == 1
                                     ? assign_rows(worth)
                                     : assign_nested(worth, Matrix<double>::Zero(bundles, bundles));
  NestedAssignment result{{}, outer.value};
  for (Eigen::Index i = 0; i < count; ++i) {
    const auto to = outer.target[static_cast<std::size_t>(i)];
    for (const auto member : inner[static_cast<std::size_t>(i * count + to)].target) {
      result.target.push_back(to * size + member);
    }
  }
  return result;
}

}  // namespace regauge
