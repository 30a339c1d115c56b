#pragma once

#include <concepts>
#include <string>

#include "regauge/base/random.h"
#include "regauge/numerics/matrix.h"

namespace regauge {

// A closed group of real size x size matrices. What a group states for itself is the minimum below;
// product, inverse, exponential, action and pull-back are those of matrices and written once
// (block_map.h, space.h).
//
//   dimension()      of the Lie algebra
//   log2_components  log2 of the number of connected components
//   random(r)        a generic member, well conditioned (singular values within [1/2, 2])
//   project(m)       orthogonal projection of any matrix onto the Lie algebra
//   violation(m)     how far m is from being a member: 0 for members, of the order of the change
//   for others
template <class G>
concept MatrixGroup = requires(const G& group, Random& random, const Matrix<double>& matrix) {
  { group.name() } -> std::convertible_to<std::string>;
  { group.size() } -> std::convertible_to<std::int64_t>;
  { group.dimension() } -> std::convertible_to<std::int64_t>;
  { group.log2_components() } -> std::convertible_to<double>;
  { group.random(random) } -> std::convertible_to<Matrix<double>>;
  { group.project(matrix) } -> std::convertible_to<Matrix<double>>;
  { group.violation(matrix) } -> std::convertible_to<double>;
};

double log2_factorial(std::int64_t n);  // log2(n!)

}  // namespace regauge
