#include "unit_lengths.h"

#include <algorithm>
#include <cmath>

#include "branch_size.h"
#include "moved_model.h"

namespace regauge {
namespace {

bool is_free_length(const Space& space) {
  return (space.category == Category::scales && !space.is_signs()) ||
         (space.width() == 1 && space.dimension() > 0 &&
          (space.category == Category::heads || space.category == Category::qk ||
           (space.category == Category::vo && std::holds_alternative<Scaling>(space.group))));
}

// No gauge changes the size of this tensor: what acts on it are lengths and isometries.
bool has_a_size(const Symmetry& symmetry, const std::string& name) {
  const TensorAxes& axes = symmetry.tensors.at(name);
  for (const auto* axis : {&axes.rows, &axes.cols}) {
    for (const auto& part : *axis) {
      const Space& space = *symmetry.find_space(part.space);
      const bool pattern = part.take == AxisPart::Take::permutation ||
                           part.take == AxisPart::Take::signs ||
                           part.take == AxisPart::Take::pattern;
      // A gain that is folded away says nothing; its readers are settled then.
      const bool folded = space.category == Category::norms && !name.ends_with(".gain");
      if (!pattern && !folded && space.dimension() > 0 && !space.is_orthogonal() &&
          !is_free_length(space)) {
        return false;
      }
    }
  }
  return !name.ends_with(".bias");
}

// For each block of the space one over the length that the tensor has of it on this axis.
Matrix<double> inverse_lengths(const Symmetry& symmetry, const std::string& name, int axis,
                               const Space& space, const Parameters<double>& tensors) {
  const auto inverse = [](double length) { return length > 0 ? 1 / length : 1; };
  if (space.count == 1) {
    return Matrix<double>::Constant(1, 1, inverse(branch_size(symmetry, name, tensors)));
  }
  const Matrix<double>& tensor = tensors.at(name);
  const Matrix<double> rows = axis == 0 ? Matrix<double>(tensor.transpose()) : tensor;
  const auto run = rows.cols() / space.count;
  Matrix<double> factors(space.count, 1);
  for (Eigen::Index i = 0; i < space.count; ++i) {
    const auto block = rows.middleCols(i * run, run);
    factors(i, 0) = inverse(block.norm() / std::sqrt(static_cast<double>(block.size())));
  }
  return factors;
}

// The first length that `known` does not hold; the identity if there is none.
Element next_length(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& tensors,
                    const Element& known) {
  Element element;
  for (const auto& spec : symmetry.layer(layer).tensors) {
    const auto tensor = tensors.find(spec.name);
    if (tensor == tensors.end()) continue;
    const bool sized = has_a_size(symmetry, spec.name);
    const TensorAxes& axes = symmetry.tensors.at(spec.name);
    for (const int axis : {0, 1}) {
      for (const auto& part : axis == 0 ? axes.rows : axes.cols) {
        const Space& space = *symmetry.find_space(part.space);
        if (!sized && !space.name.ends_with(".post_norm.scale")) continue;  // of a branch
        const bool counts =
            part.take == AxisPart::Take::whole || part.take == AxisPart::Take::diagonal;
        if (!is_free_length(space) || part.dual || !counts || known.maps.contains(space.name)) {
          continue;
        }
        element.maps[space.name] = BlockMap<double>(
            space.count, 1, {}, inverse_lengths(symmetry, spec.name, axis, space, tensors));
        return element;
      }
    }
  }
  return element;
}

}  // namespace

bool has_free_lengths(const Symmetry& symmetry) {
  return std::any_of(symmetry.spaces.begin(), symmetry.spaces.end(), is_free_length);
}

Element unit_lengths(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& given,
                     const Element& known) {
  Element lengths, settled = known;
  if (!has_free_lengths(symmetry)) return lengths;
  Parameters<double> tensors = given;
  for (;;) {
    const Element next = next_length(symmetry, layer, tensors, settled);
    if (next.is_identity()) return lengths;
    act_on_layer(symmetry, next, layer, tensors);
    lengths.maps.insert(next.maps.begin(), next.maps.end());
    settled.maps.insert(next.maps.begin(), next.maps.end());
  }
}

}  // namespace regauge
