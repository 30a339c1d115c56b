#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "regauge/arch/parameters.h"

namespace regauge {

// A tensor in the precision that it is worked on.
using AnyMatrix = std::variant<Matrix<float>, Matrix<double>>;
template <class Scalar>
Matrix<Scalar> as(AnyMatrix matrix) {
  if (auto* same = std::get_if<Matrix<Scalar>>(&matrix)) return std::move(*same);
  return std::visit([](const auto& m) -> Matrix<Scalar> { return m.template cast<Scalar>(); },
                    matrix);
}

// Canonical tensors by name, from wherever a model lies.
class ReadTensor {
 public:
  ReadTensor() = default;
  template <class Read, class = std::enable_if_t<std::is_convertible_v<
                            std::invoke_result_t<Read&, std::string_view>, AnyMatrix>>>
  ReadTensor(Read read) : read_(std::move(read)) {}

  AnyMatrix any(std::string_view name) const { return read_(name); }
  Matrix<double> operator()(std::string_view name) const { return as<double>(any(name)); }

 private:
  std::function<AnyMatrix(std::string_view)> read_;
};

// Of a model in memory, which must outlive it.
template <class Scalar>
ReadTensor reader_of(const Parameters<Scalar>& parameters) {
  return [&parameters](std::string_view name) { return parameters.at(std::string(name)); };
}

}  // namespace regauge
