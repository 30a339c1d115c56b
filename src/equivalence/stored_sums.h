#pragma once

#include <cstddef>

#include "regauge/io/dtype.h"

namespace regauge {

// Inner products of two arrays of numbers.
struct Sums {
  double aa = 0;
  double bb = 0;
  double dd = 0;  // of the differences, each taken before it is squared

  // Float's range was enough for the squares: neither infinite nor lost below.
  bool are_sound(std::int64_t count) const;
};

// Adds those of `count` numbers as they are stored, of any two types but f64. Squares are summed in
// float over short blocks and in double over these.
void add_stored_sums(DType type_a, const std::byte* a, DType type_b, const std::byte* b,
                     std::int64_t count, Sums& sums);

}  // namespace regauge
