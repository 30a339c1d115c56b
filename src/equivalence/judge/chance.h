#pragma once

#include <cstdint>

namespace regauge {

// What chance makes of independent normal numbers, beyond which it goes about once in a million
// tensors.

// The largest of `count` numbers.
double largest_of(std::int64_t count);
// The largest root mean square of `freedom` numbers, of `count` such.
double largest_rms_of(std::int64_t count, std::int64_t freedom);
// The largest singular value of a matrix of them.
double singular_by_chance(std::int64_t rows, std::int64_t cols);

}  // namespace regauge
