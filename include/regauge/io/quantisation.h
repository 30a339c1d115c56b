#pragma once

#include <cstddef>
#include <span>

#include "regauge/io/dtype.h"

namespace regauge {

// The root mean square error, relative to that of the values, that rounding to the nearest code of
// a quantised type leaves, as the stored scales of the blocks have it: step / sqrt(12). Throws
// UsageError for other types.
double quantisation_error(DType dtype, std::span<const std::byte> bytes);

}  // namespace regauge
