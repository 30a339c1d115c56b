#include "expert_match.h"

#include <algorithm>

#include "cross.h"
#include "numerics/nested.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

constexpr Eigen::Index kDirections = 8;  // through which an expert's second moments are seen

// The columns of a tensor (axis 1), or its rows (axis 0), from `first` on.
template <class Scalar>
Matrix<Scalar> some(const Matrix<Scalar>& tensor, int axis, std::int64_t first,
                    std::int64_t count) {
  return axis == 1 ? Matrix<Scalar>(tensor.middleCols(first, count))
                   : Matrix<Scalar>(tensor.middleRows(first, count));
}

// Calls use(tensor name, axis) for every map that has a vector for each of the `count` blocks of
// the space, or of what follows it.
template <class Scalar, class Use>
void for_blocks(const Symmetry& symmetry, const Space& space, std::int64_t count,
                const Parameters<Scalar>& tensors, const Use& use) {
  std::vector<std::size_t> places = {symmetry.index->spaces.at(space.name)};
  const auto followers = symmetry.index->followers.find(space.name);
  if (followers != symmetry.index->followers.end()) {
    places.insert(places.end(), followers->second.begin(), followers->second.end());
  }
  for (const std::size_t place : places) {
    const Space& other = symmetry.spaces[place];
    if (other.count != count) continue;
    for_axes(symmetry, tensors, other.name,
             [&](const std::string& tensor, int axis, const AxisPart& part) {
               if (part.take != AxisPart::Take::diagonal) use(tensor, axis);
             });
  }
}

// Signs for each coordinate of an expert's vectors, the same for both models.
template <class Scalar>
Matrix<Scalar> directions(const std::string& tensor, Eigen::Index size) {
  Random random(0, "experts/" + tensor);
  Matrix<Scalar> result(size, kDirections);
  for (auto& entry : result.reshaped()) entry = random.coin() ? Scalar(1) : Scalar(-1);
  return result;
}

template <class Scalar>
void make_unit_rows(Matrix<Scalar>& rows) {
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    if (const Scalar length = rows.row(i).norm(); length > 0) rows.row(i) /= length;
  }
}

// A row for each expert: W W^T R of its vectors W, of length 1.
template <class Scalar>
Matrix<Scalar> moments(const Matrix<Scalar>& tensor, int axis, const std::string& name,
                       std::int64_t experts) {
  const auto size = (axis == 1 ? tensor.cols() : tensor.rows()) / experts;
  const auto width = axis == 1 ? tensor.rows() : tensor.cols();
  const Matrix<Scalar> seen_by = directions<Scalar>(name, width);
  Matrix<Scalar> rows(experts, width * kDirections);
  for (std::int64_t e = 0; e < experts; ++e) {
    Matrix<Scalar> vectors = some(tensor, axis, e * size, size);
    if (axis == 0) vectors.transposeInPlace();
    const Matrix<Scalar> seen = vectors * (vectors.transpose() * seen_by);
    rows.row(e) = seen.reshaped().transpose();
  }
  make_unit_rows(rows);
  return rows;
}

}  // namespace

template <class Scalar>
std::vector<std::int64_t> match_experts(const Symmetry& symmetry, const Space& neurons,
                                        const Parameters<Scalar>& a, const Parameters<Scalar>& b) {
  const std::int64_t experts = neurons.groups();
  Matrix<double> worth = Matrix<double>::Zero(experts, experts);
  const auto add = [&](const Matrix<Scalar>& rows_b, const Matrix<Scalar>& rows_a) {
    worth += (rows_b * rows_a.transpose()).template cast<double>();
  };
  for_blocks(symmetry, neurons, experts, a, [&](const std::string& tensor, int axis) {
    const auto rows = [&](Matrix<Scalar> of) {
      if (axis == 1) of.transposeInPlace();
      make_unit_rows(of);
      return of;
    };
    add(rows(b.at(tensor)), rows(a.at(tensor)));
  });
  for_blocks(symmetry, neurons, neurons.count, a, [&](const std::string& tensor, int axis) {
    add(moments(b.at(tensor), axis, tensor, experts), moments(a.at(tensor), axis, tensor, experts));
  });
  return assign_nested(worth, Matrix<double>::Zero(neurons.bundles, neurons.bundles)).target;
}

template <class Scalar>
Parameters<Scalar> maps_of_expert(const Symmetry& symmetry, const Space& neurons,
                                  std::int64_t expert, const Parameters<Scalar>& tensors) {
  const std::int64_t size = neurons.group_size;
  Parameters<Scalar> maps;
  for_blocks(symmetry, neurons, neurons.count, tensors, [&](const std::string& tensor, int axis) {
    maps[tensor] = some(tensors.at(tensor), axis, expert * size, size);
  });
  return maps;
}

template std::vector<std::int64_t> match_experts(const Symmetry&, const Space&,
                                                 const Parameters<float>&,
                                                 const Parameters<float>&);
template std::vector<std::int64_t> match_experts(const Symmetry&, const Space&,
                                                 const Parameters<double>&,
                                                 const Parameters<double>&);
template Parameters<float> maps_of_expert(const Symmetry&, const Space&, std::int64_t,
                                          const Parameters<float>&);
template Parameters<double> maps_of_expert(const Symmetry&, const Space&, std::int64_t,
                                           const Parameters<double>&);

}  // namespace regauge
