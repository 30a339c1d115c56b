#pragma once

#include <string>
#include <vector>

#include "regauge/action/rewrite.h"

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
  double size = 0;      // of A's tensor
  double residual = 0;  // of the difference
  double rounding = 0;  // of what rounding explains: A's own, and B's as the element moves it

  bool blind = false;  // a matrix that is mostly rounding: a comparison says nothing

  // The residual in units of what is accepted: the same up to 1; infinite where it is blind.
  double excess() const;
  bool agrees() const { return excess() <= 1; }
};

// Rounding to this type, as a relative root mean square error.
double rounding_of(DType dtype);

// Every canonical tensor, in the order of parameter_specs; one tensor of each model in memory at a
// time. What B's rounding becomes is measured: B is moved a second time with its entries, and the
// element's shifts, shaken by as much. A tensor that the element moves counts as rounded like the
// coarsest matrix of its model: no element is known better. `a` and `b` are read as
// symmetry.architecture.
std::vector<TensorResidual> compare(const Symmetry& symmetry, const Element& a_from_b,
                                    const ParameterSource& a, const ParameterSource& b,
                                    Progress& progress);
bool all_agree(const std::vector<TensorResidual>& residuals);

}  // namespace regauge
