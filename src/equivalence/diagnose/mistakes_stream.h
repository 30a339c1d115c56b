#pragma once

#include "change.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// What goes wrong when the whole stream is rotated, for models whose stream may be (read untied).
// The rotation is taken from the embedding or from the head, whichever side it is to explain.
std::vector<Change> stream_changes(const Pair& pair, const Symmetry& symmetry);

// B's stream as one of its ends shows it: the elements that carry A's coordinates of it to B's, as
// far as embedding and head each determine one.
std::vector<Element> b_streams_from_a(const Pair& pair, const Symmetry& symmetry);

// Embedding or head of B look like A's in other coordinates; true where there is none to look at.
bool streams_are_related(const Pair& pair, const Symmetry& symmetry);

}  // namespace regauge
