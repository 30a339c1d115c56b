#pragma once

#include "regauge/symmetry/scope.h"

namespace regauge {

// Throws UsageError if the scope names layers that a model of so many has not.
void require_layers(const Scope& scope, std::int64_t layers);

}  // namespace regauge
