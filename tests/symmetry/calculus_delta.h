#pragma once

#include <string>

#include "calculus_tables.h"

namespace regauge::calculus_system {

// A gated delta net that reads x: what it writes. `at`: "layers.3.delta.". With `rigid` kernels,
// a negative control, these cannot change.
Wire delta_net(System& system, const DeltaNet& shape, const Tensors& tensors, const std::string& at,
               const Wire& x, bool rigid);
// An output gate multiplies the coordinates of what a head has gathered: each of them may scale by
// itself, and is another function of the input.
Wire gated(System& system, const Wire& v);

}  // namespace regauge::calculus_system
