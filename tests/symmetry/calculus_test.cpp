#include "symmetry/calculus.h"

#include <gtest/gtest.h>

#include "symmetry/architectures.h"

namespace regauge {
namespace {

TEST(Calculus, GivesEveryRowOfTheTable) {
  for (const auto& row : known_architectures()) {
    SCOPED_TRACE(row.name);
    if (row.parameters != 0) {
      EXPECT_EQ(parameter_count(row.architecture), row.parameters);
    }
    const CalculusResult result = calculus(row.architecture, 1);
    EXPECT_EQ(result.dimension, row.nullity);
    EXPECT_GT(result.gap, 1e6);
  }
}

}  // namespace
}  // namespace regauge
