#pragma once

#include "calculus.h"
#include "calculus_tables.h"

namespace regauge::calculus_system {

// The hull of what stands behind convolutions, a stream on which a norm allows a similarity: all,
// and none. Vectors take every value, and a gelu stands behind each convolution: it passes no
// change, and fills its space.
// An encoder's stream is what the last one writes; of its position table only what a norm does not
// see may change. Elsewhere a map follows, and a positional convolution, whose gelu fills the
// stream and whose kernel is divided by its lengths.
Dense heard(System& system, const Architecture& a, const Tensors& tensors, const Similarity& stream,
            const Dense& seen, Mistake mistake);

}  // namespace regauge::calculus_system
