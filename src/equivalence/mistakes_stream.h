#pragma once

#include "change.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge {

// What goes wrong when the whole stream is turned, for models whose stream may be (read untied).
// The turn is taken from the embedding or from the head, whichever side it is to explain.
std::vector<Change> stream_changes(const Pair& pair, const Symmetry& symmetry);

}  // namespace regauge
