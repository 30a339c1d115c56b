#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <map>
#include <string>

#include "regauge/arch/parameters.h"

namespace regauge::lab {

// Canonical parameters as libtorch holds them, by the same names.
using Tensors = std::map<std::string, at::Tensor>;

template <class Scalar>
inline constexpr at::ScalarType kType = c10::CppTypeToScalarType<Scalar>::value;

// The matrix itself as a tensor, not a copy: it must outlive the tensor. Nothing writes to it.
template <class Scalar>
at::Tensor view(const Matrix<Scalar>& matrix) {
  return at::from_blob(const_cast<Scalar*>(matrix.data()), {matrix.rows(), matrix.cols()},
                       kType<Scalar>);
}

template <class Scalar>
Tensors view(const Parameters<Scalar>& parameters) {
  Tensors tensors;
  for (const auto& [name, value] : parameters) tensors.emplace(name, view(value));
  return tensors;
}

// A copy; all dimensions but the last become rows.
template <class Scalar>
Matrix<Scalar> matrix(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.reshape({-1, tensor.size(-1)}).to(kType<Scalar>).contiguous();
  return Eigen::Map<const Matrix<Scalar>>(flat.const_data_ptr<Scalar>(), flat.size(0),
                                          flat.size(1));
}

// Whole numbers, lent: `values` must outlive the tensor.
inline at::Tensor numbers(const std::vector<std::int64_t>& values, at::IntArrayRef shape) {
  return at::from_blob(const_cast<std::int64_t*>(values.data()), shape, at::kLong);
}

}  // namespace regauge::lab
