#pragma once

#include <functional>
#include <variant>

#include "regauge/base/progress.h"
#include "regauge/symmetry/element.h"

namespace regauge {

struct FoldOptions {
  bool gains = true;     // every gain that may move becomes 1
  bool biases = true;    // every layer norm's bias whose readers all have biases becomes 0
  bool centring = true;  // layer norms: writers lose their mean, readers the part along 1/gain
};

// A tensor in the precision that it is worked on.
using AnyMatrix = std::variant<Matrix<float>, Matrix<double>>;
template <class Scalar>
Matrix<Scalar> as(const AnyMatrix& matrix) {
  return std::visit([](const auto& m) -> Matrix<Scalar> { return m.template cast<Scalar>(); },
                    matrix);
}

// Gives a canonical tensor by name, from wherever the model lies.
using TensorReader = std::function<AnyMatrix(const std::string&)>;

// The element that folds the norms of a model into its linear maps (theory.md section 5). What the
// architecture does not allow stays: a tied head's gain, post-norm gains.
Element fold_element(const Symmetry& symmetry, const TensorReader& read, const FoldOptions& options,
                     Progress& progress);

}  // namespace regauge
