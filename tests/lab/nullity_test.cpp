// The second judge: the group is complete where its dimension is the nullity of the Jacobian.
#include "regauge/lab/nullity.h"

#include <gtest/gtest.h>

#include "regauge/symmetry/symmetry.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

// At the first random parameters that leave no ReLU unit stuck.
lab::Nullity measure(const Architecture& a) {
  for (std::uint64_t seed = 1;; ++seed) {
    const lab::Nullity nullity =
        lab::measure_nullity(a, random_parameters(a, seed), seed, Progress::silent());
    if (nullity.stuck_units == 0 || seed == 20) return nullity;
  }
}

void expect_complete(const Architecture& a, std::int64_t dimension) {
  const lab::Nullity found = measure(a);
  EXPECT_EQ(found.nullity, dimension)
      << "kept " << found.smallest_kept << " dropped " << found.largest_dropped << " stuck "
      << found.stuck_units << " " << to_json(a).dump();
  EXPECT_GT(found.smallest_kept, 100 * found.largest_dropped) << to_json(a).dump();
}

class KnownNullity : public ::testing::TestWithParam<int> {};

TEST_P(KnownNullity, IsTheDimensionOfTheGroup) {
  const auto& known = known_architectures()[static_cast<std::size_t>(GetParam())];
  EXPECT_EQ(symmetry_of(known.architecture).dimension(), known.nullity);
  expect_complete(known.architecture, known.nullity);
}

INSTANTIATE_TEST_SUITE_P(Theory, KnownNullity, ::testing::Range(0, 31));

// random_architecture, where the function is not degenerate on what can be sampled: a parallel
// block needs many more tokens than units, and a class token that one layer reads asks one question
// only.
Architecture generic_architecture(std::uint64_t seed) {
  Architecture a = random_architecture(seed);
  if (a.parallel && a.input == Input::tokens)
    a.vocabulary = std::max(a.vocabulary, std::int64_t{50});
  if (a.class_token && !a.causal) a.layers = std::max(a.layers, std::int64_t{2});
  return a;
}

class RandomNullity : public ::testing::TestWithParam<int> {};

TEST_P(RandomNullity, IsTheDimensionOfTheGroup) {
  const Architecture a = generic_architecture(static_cast<std::uint64_t>(GetParam()));
  expect_complete(a, symmetry_of(a).dimension());
}

INSTANTIATE_TEST_SUITE_P(Architectures, RandomNullity, ::testing::Range(0, 24));

}  // namespace
}  // namespace regauge
