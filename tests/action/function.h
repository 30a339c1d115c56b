#pragma once

#include <vector>

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge::testing {

// The largest change of an output, relative to the outputs' spread.
double change(const Architecture& a, const Parameters<double>& before,
              const Parameters<double>& after);

// The known ones, and random ones.
std::vector<Architecture> architectures();

// Elements that blow up a nearly singular constant (bias/gain summing to almost 0) are not what is
// tested here.
bool well_conditioned(const Symmetry& symmetry, const Parameters<double>& parameters);

}  // namespace regauge::testing
