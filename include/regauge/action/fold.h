#pragma once

#include "regauge/arch/read_tensor.h"
#include "regauge/base/progress.h"
#include "regauge/symmetry/element.h"

namespace regauge {

struct FoldOptions {
  bool gains = true;     // every gain that may move becomes 1
  bool biases = true;    // every layer norm's bias whose readers all have biases becomes 0
  bool centring = true;  // layer norms: writers lose their mean, readers the part along 1/gain
};

// The element that folds the norms and layer scales of a model into its linear maps (theory.md
// section 5). What the architecture does not allow stays: a tied head's gain, post-norm gains.
Element fold_element(const Symmetry& symmetry, const ReadTensor& read, const FoldOptions& options,
                     Progress& progress);

}  // namespace regauge
