#pragma once

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// A vector of a Symmetry's Lie algebra, or of its dual: one block matrix per space of positive
// dimension, one vector per shift.
struct Tangent {
  std::map<std::string, Matrix<double>> maps;    // [count * width, width]
  std::map<std::string, Matrix<double>> shifts;  // [1, length]
};

double inner_product(const Tangent& a, const Tangent& b);
// A curve through the identity with this velocity: exp of the maps, the shifts as they are. (Not
// the group's exponential, in which the maps would carry the shifts along.)
Element retract(const Symmetry& symmetry, const Tangent& tangent);
// Standard normal in every free coordinate.
Tangent random_tangent(const Symmetry& symmetry, std::uint64_t seed);

// The gradient on the group: with G = dL/d theta at `parameters`,
//   <pull_back, X> = d/de L(retract(e X) . parameters) at e = 0   for every X in the algebra.
Tangent pull_back(const Symmetry& symmetry, const Parameters<double>& parameters,
                  const Parameters<double>& gradient);

}  // namespace regauge
