#pragma once

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge {

// Where B's experts (rows) belong among A's, for a space of neurons in groups of one expert each:
// by the router's columns, and by what the maps of an expert are whatever the order and the signs
// of its neurons. Routing groups stay together.
template <class Scalar>
std::vector<std::int64_t> match_experts(const Symmetry& symmetry, const Space& neurons,
                                        const Parameters<Scalar>& a, const Parameters<Scalar>& b);

// The part of a layer's tensors that belongs to one expert: its neurons, in all maps that hold
// them.
template <class Scalar>
Parameters<Scalar> maps_of_expert(const Symmetry& symmetry, const Space& neurons,
                                  std::int64_t expert, const Parameters<Scalar>& tensors);

}  // namespace regauge
