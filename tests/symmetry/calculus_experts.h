#pragma once

#include <map>
#include <string>

#include "calculus.h"
#include "calculus_wires.h"

namespace regauge::calculus_system {

// What a router's logits, and the bias of the choice among `tensors`, must keep. `name`: of the
// branch, with a dot.
void require_routing(System& system, const Experts& experts, const Wire& logits,
                     const std::map<std::string, Tensor>& tensors, const std::string& name,
                     regauge::Mistake mistake);

// What `width` neurons each have in their hidden layer, times a factor for each expert.
Wire times_factors(const Wire& hidden, const Tensor& factors, Index width);

}  // namespace regauge::calculus_system
