#pragma once

#include "regauge/equivalence/compare.h"
#include "regauge/equivalence/describe.h"

namespace regauge {

// B as near to A as was found, and what then remains of each tensor. The identity if the files
// agree as they stand, or if no element makes more of the tensors agree.
struct Nearest {
  Element a_from_b;
  std::vector<Movement> movements;        // what it does
  std::vector<TensorResidual> residuals;  // in the order of parameter_specs
  std::vector<std::string> limits;        // why there may be a better one
};

// `a` and `b` are read as symmetry.architecture. This is what diff() rests on, and every hypothesis
// of diagnose().
enum class Doubt {
  keep,    // what does not agree differs
  resolve  // unless honest copies of A look like it, which takes about three times as long
};
Nearest bring_near(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
                   Progress& progress, Doubt doubt = Doubt::keep);

// Tensors that differ: others agree, or rounding is too coarse to tell.
std::int64_t differing(const std::vector<TensorResidual>& residuals);

// Most matrices agree or are nearer than what is unrelated: what else differs was changed in this
// model.
bool mostly_near(const std::vector<TensorResidual>& residuals);

}  // namespace regauge
