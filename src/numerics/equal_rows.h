#pragma once

#include <cstdint>
#include <vector>

#include "similarity_rows.h"

namespace regauge {

// For each row the first row with the same bits (by a hash of 128 bits): neurons that are dead, or
// copies of each other. Reads all rows.
std::vector<std::int32_t> equal_rows(SimilarityRows& rows, Progress& progress);

}  // namespace regauge
