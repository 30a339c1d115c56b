#include "complete.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "symmetry/architectures.h"

namespace regauge::testing {

lab::Nullity measure(const Architecture& a) {
  std::uint64_t seed = 1;
  while (seed < 20 && lab::stuck_units(a, random_parameters(a, seed), seed) > 0) ++seed;
  return lab::measure_nullity(a, random_parameters(a, seed), seed, Progress::silent());
}

void expect_complete(const Architecture& a, std::int64_t dimension) {
  const lab::Nullity found = measure(a);
  EXPECT_EQ(found.nullity, dimension)
      << "kept " << found.smallest_kept << " dropped " << found.largest_dropped << " stuck "
      << found.stuck_units << " " << to_json(a).dump();
  EXPECT_GT(found.smallest_kept, 100 * found.largest_dropped) << to_json(a).dump();
}

}  // namespace regauge::testing
