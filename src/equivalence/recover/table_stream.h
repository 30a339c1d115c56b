#pragma once

#include <string>
#include <vector>

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// Of tables that a map brings into the stream: what carries b's coordinates to a's, by the tables
// alone, since what the map writes is in no order yet. `limits`: what they do not determine.
Element recover_table_stream(const Symmetry& symmetry, const Parameters<double>& a,
                             const Parameters<double>& b, double rounding,
                             std::vector<std::string>& limits);

}  // namespace regauge
