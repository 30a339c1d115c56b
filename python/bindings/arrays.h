#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "regauge/arch/parameters.h"

namespace regauge::python {

namespace nb = nanobind;

template <class Scalar>
using Array = nb::ndarray<nb::numpy, Scalar, nb::ndim<2>>;

// A matrix as numpy sees it, without a copy; the array owns it.
template <class Scalar>
Array<Scalar> as_array(Matrix<Scalar> matrix) {
  auto* owned = new Matrix<Scalar>(std::move(matrix));
  const nb::capsule owner(owned,
                          [](void* held) noexcept { delete static_cast<Matrix<Scalar>*>(held); });
  return {owned->data(),
          {static_cast<std::size_t>(owned->rows()), static_cast<std::size_t>(owned->cols())},
          owner};
}

}  // namespace regauge::python
