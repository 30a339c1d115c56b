#pragma once

#include "regauge/align/align.h"

namespace regauge {

// Models side by side, one after the other, each by this method as if it stood alone.
Alignment align_towers(decltype(align_weights)& by, const Symmetry& symmetry, const ReadTensor& a,
                       const ReadTensor& b, const AlignOptions& options, Progress& progress);

}  // namespace regauge
