#include "against_calculus.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "calculus.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge::testing {
namespace {

std::string factors(const Symmetry& symmetry) {
  std::string text;
  for (const auto& space : symmetry.spaces) {
    text += space.name + " " + std::to_string(space.dimension()) + "\n";
  }
  for (const auto& shift : symmetry.shifts) {
    text += shift.name + " " + std::to_string(shift.dimension) + "\n";
  }
  return text;
}

}  // namespace

bool table_takes_up_its_norm(const Architecture& a) {
  const bool alone = a.input == Input::tokens && a.position_table != PositionTable::learned &&
                     a.position_table != PositionTable::sinusoidal && a.token_types <= 1 && !a.tied;
  return a.embedding_norm && a.norm_eps > 0 && alone;
}

void expect_the_calculus(const Architecture& architecture, std::uint64_t seed, std::int64_t more) {
  const Symmetry symmetry = symmetry_of(architecture);
  // Parameters in special position only ever have more freedom.
  const std::int64_t generic =
      std::min(calculus(architecture, seed).dimension, calculus(architecture, seed + 1).dimension);
  EXPECT_EQ(symmetry.dimension() + more, generic)
      << "seed " << seed << ": " << to_json(architecture).dump() << "\n"
      << factors(symmetry);
}

}  // namespace regauge::testing
