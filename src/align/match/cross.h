#pragma once

#include <string_view>

#include "base/blas.h"
#include "regauge/arch/parameters.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge {

// sum += b^T a along the columns of two tensors (axis 1), or b a^T along their rows (axis 0).
template <class Scalar>
void add_cross(const Matrix<Scalar>& b, const Matrix<Scalar>& a, int axis, Matrix<Scalar>& sum) {
  const auto inner = axis == 1 ? a.rows() : a.cols();
  gemm<Scalar>(axis == 1, axis == 0, sum.rows(), sum.cols(), inner, 1, b.data(), b.cols(), a.data(),
               a.cols(), 1, sum.data(), sum.cols());
}

// Calls use(tensor name, axis, part) for every axis of the given tensors on which the space acts.
template <class Scalar, class Use>
void for_axes(const Symmetry& symmetry, const Parameters<Scalar>& tensors, std::string_view space,
              const Use& use) {
  for (const auto& [name, tensor] : tensors) {
    const TensorAxes& axes = symmetry.tensors.at(name);
    for (const int axis : {0, 1}) {
      for (const auto& part : axis == 0 ? axes.rows : axes.cols) {
        if (part.space == space) use(name, axis, part);
      }
    }
  }
}

}  // namespace regauge
