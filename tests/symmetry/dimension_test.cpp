// The dimension of symmetry_of against theory.md's table and against the calculus of its section 1b.
#include <gtest/gtest.h>

#include "regauge/symmetry/symmetry.h"
#include "symmetry/architectures.h"
#include "symmetry/calculus.h"

namespace regauge {
namespace {

TEST(Dimension, EqualsTheoryTable) {
  for (const auto& known : known_architectures()) {
    EXPECT_EQ(symmetry_of(known.architecture).dimension(), known.nullity) << known.name;
  }
}

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

TEST(Dimension, EqualsTheCalculusOnRandomArchitectures) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const Architecture architecture = random_architecture(seed);
    const Symmetry symmetry = symmetry_of(architecture);
    const CalculusResult result = calculus(architecture, seed);
    EXPECT_EQ(symmetry.dimension(), result.dimension)
        << "seed " << seed << ": " << to_json(architecture).dump() << "\n"
        << factors(symmetry);
  }
}

}  // namespace
}  // namespace regauge
