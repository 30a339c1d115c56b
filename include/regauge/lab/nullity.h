#pragma once

#include <vector>

#include "regauge/arch/parameters.h"
#include "regauge/base/progress.h"

namespace regauge::lab {

// The null space of the derivative of a model's outputs by its parameters: the directions in which
// the function does not change, to first order.
struct Nullity {
  std::vector<double> singular_values;  // one per parameter, descending, the first is 1
  std::int64_t nullity = 0;
  double smallest_kept = 0, largest_dropped = 0;  // the gap that decides
  bool has_clear_gap() const { return smallest_kept > 100 * largest_dropped; }
  // ReLU units that are off, or on, for nearly every sampled input: each makes the function
  // degenerate there, and the nullity larger than the group.
  std::int64_t stuck_units = 0;
};

// At these parameters, on random inputs drawn from `seed`, in double. Each row of the matrix is the
// derivative of a random combination of outputs, so that a third more rows than parameters show its
// rank. Throws UsageError for a model whose matrix would not fit `max_bytes`.
Nullity measure_nullity(const Architecture& architecture, const Parameters<double>& parameters,
                        std::uint64_t seed, Progress& progress,
                        std::int64_t max_bytes = std::int64_t{8} << 30);

// Nullity::stuck_units alone, of the same inputs: one forward pass.
std::int64_t stuck_units(const Architecture& architecture, const Parameters<double>& parameters,
                         std::uint64_t seed);

}  // namespace regauge::lab
