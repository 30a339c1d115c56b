// Directions are drawn from what the two files hold, and from nothing else.
#include "equivalence/judge/directions.h"

#include <gtest/gtest.h>

#include "symmetry/architectures.h"
#include "written.h"

namespace regauge {
namespace {

class Directions : public ::testing::Test {
 protected:
  Model written(const Parameters<double>& parameters) {
    return files_.write(shape_, parameters, DType::f32);
  }
  std::uint64_t seed(const Model& a, const Model& b) const {
    return directions_seed(ParameterSource(a, shape_), ParameterSource(b, shape_),
                           Progress::silent());
  }

  Architecture shape_ = known_architectures().front().architecture;
  testing::Written files_{"directions"};
};

TEST_F(Directions, AreTheSameForTheSameTwoModels) {
  const auto p = random_parameters(shape_, 1), q = random_parameters(shape_, 2);
  EXPECT_EQ(seed(written(p), written(q)), seed(written(p), written(q)));  // in other places
}

TEST_F(Directions, ChangeWithOneBitOfEither) {
  const auto p = random_parameters(shape_, 1), q = random_parameters(shape_, 2);
  const std::uint64_t before = seed(written(p), written(q));
  const auto by_one_bit = [](Parameters<double> parameters) {
    double& number = parameters.begin()->second(0, 0);
    number = std::nextafter(static_cast<float>(number), 1e9F);
    return parameters;
  };
  EXPECT_NE(seed(written(by_one_bit(p)), written(q)), before);
  EXPECT_NE(seed(written(p), written(by_one_bit(q))), before);
  EXPECT_NE(seed(written(q), written(p)), before);  // which of the two is A counts
}

}  // namespace
}  // namespace regauge
