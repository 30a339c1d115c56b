// The plane through three models: coordinates, and losses at the models themselves.
#include "regauge/lab/plane.h"

#include <gtest/gtest.h>

#include <cmath>

#include "inputs.h"
#include "regauge/lab/sample.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

TEST(Plane, MeetsTheThreeModels) {
  const Architecture architecture = known_architectures().front().architecture;
  const auto model = [&](std::uint64_t seed) {
    return cast<float>(random_parameters(architecture, seed));
  };
  const auto a = model(1), b = model(2), c = model(3);
  const auto data = lab::sample_data(architecture, {&a}, 20, 6, 1, Progress::silent());
  const lab::Plane plane =
      lab::measure_plane(architecture, a, b, c, *data, 15, 0, Progress::silent());

  const auto distance = [](const Parameters<float>& x, const Parameters<float>& y) {
    double sum = 0;
    for (const auto& [name, value] : x) sum += (value - y.at(name)).cast<double>().squaredNorm();
    return std::sqrt(sum);
  };
  EXPECT_NEAR(plane.b[0], distance(a, b), 1e-4);
  EXPECT_NEAR(std::hypot(plane.c[0], plane.c[1]), distance(a, c), 1e-4);
  EXPECT_NEAR(std::hypot(plane.c[0] - plane.b[0], plane.c[1]), distance(b, c), 1e-4);

  // The sides reach a fifth beyond the models: with 15 points the fourth is on y = 0, the twelfth
  // on y of C.
  EXPECT_NEAR(plane.y[2], 0, 1e-9);
  EXPECT_NEAR(plane.y[12], plane.c[1], 1e-4);
  const auto loss = [&](const Parameters<float>& p) {
    return lab::evaluate(architecture, p, *data, 0, Progress::silent()).loss;
  };
  const auto nearest = [&](double x) {
    std::size_t best = 0;
    for (std::size_t i = 0; i < plane.x.size(); ++i) {
      if (std::abs(plane.x[i] - x) < std::abs(plane.x[best] - x)) best = i;
    }
    return best;
  };
  const auto column = static_cast<Eigen::Index>(nearest(0));
  ASSERT_NEAR(plane.x[nearest(0)], 0, 1e-4);
  EXPECT_NEAR(plane.loss(2, column), loss(a), 1e-5);
  Parameters<float> third;  // a point of the side from A to B
  const double t = plane.x[5] / plane.b[0];
  for (const auto& [name, value] : a) {
    third[name] = value + static_cast<float>(t) * (b.at(name) - value);
  }
  EXPECT_NEAR(plane.loss(2, 5), loss(third), 1e-5);
}

}  // namespace
}  // namespace regauge
