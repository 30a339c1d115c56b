#pragma once

#include <string>
#include <vector>

#include "regauge/action/parameter_source.h"
#include "regauge/base/progress.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// Why two models cannot be compared as one architecture, a line each; empty if they can. Files
// round eps, scales and frequencies; a tie, a bias that is nowhere but zero, and tokens at the end
// of the vocabulary are no difference.
std::vector<std::string> architecture_differences(const Architecture& a, const Architecture& b);
// The architecture as which both can be read: untied unless both are tied, with every bias that one
// of them has, and the tokens that both have.
Architecture joint_architecture(const Architecture& a, const Architecture& b);
// What the two declare differently although they can be compared, a line each.
std::vector<std::string> declaration_differences(const Architecture& a, const Architecture& b);

// One tensor of A against the same tensor of a_from_b . B; root mean squares over its entries.
struct TensorResidual {
  std::string tensor;
  bool single_row = false;
  double size = 0;        // of A's tensor
  double residual = 0;    // of the difference
  double rounding = 0;    // of what rounding explains: A's own, and B's as the element moves it
  bool in_place = false;  // a matrix that the element does not move, or brings no nearer
  bool blind = false;     // a matrix that is mostly rounding: a comparison says nothing

  // The residual in units of what is accepted: the same up to 1; infinite where it is blind.
  double excess() const;
  bool agrees() const { return excess() <= 1; }
};

// Rounding to this type, as a relative root mean square error; typical for a quantised one, where
// compare() takes it from the blocks' scales.
double rounding_of(DType dtype);

// A and B as they stand, every canonical tensor, in the order of parameter_specs: one pass over
// both files where they hold a tensor in the same order, whatever its types. Both are read as one
// architecture.
std::vector<TensorResidual> compare_in_place(const ParameterSource& a, const ParameterSource& b,
                                             Progress& progress);

// A and a_from_b . B, tensor by tensor in the order of parameter_specs: the element is applied to
// all of B, one tensor of each model in memory at a time. What B's rounding becomes is measured: B
// is moved a second time with its entries, and the element's shifts, shaken by as much. A tensor
// that the element moves counts as rounded like the coarsest matrix of its model: no element is
// known better. `a` and `b` are read as symmetry.architecture.
std::vector<TensorResidual> compare(const Symmetry& symmetry, const Element& a_from_b,
                                    const ParameterSource& a, const ParameterSource& b,
                                    Progress& progress);
// The same seen through products with a few random columns of signs, for a few passes over both
// files instead of the element on all of B. Single rows are exact; a matrix's residual is within a
// few per cent unless it has a low rank, and exact where one entry differs.
std::vector<TensorResidual> estimate(const Symmetry& symmetry, const Element& a_from_b,
                                     const ParameterSource& a, const ParameterSource& b,
                                     Progress& progress);
std::int64_t disagreeing(const std::vector<TensorResidual>& residuals);  // how many
bool all_agree(const std::vector<TensorResidual>& residuals);

}  // namespace regauge
