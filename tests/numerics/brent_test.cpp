#include "numerics/brent.h"

#include <gtest/gtest.h>

namespace regauge {
namespace {

TEST(Brent, FindsTheOneMinimum) {
  for (const double at : {-1.7, 0.0, 0.3, 2.9}) {
    EXPECT_NEAR(brent_minimum([&](double x) { return (x - at) * (x - at); }, -3, 3), at, 1e-7);
    EXPECT_NEAR(brent_minimum([&](double x) { return std::cosh(5 * (x - at)); }, -3, 3), at, 1e-7);
    EXPECT_NEAR(brent_minimum([&](double x) { return std::abs(x - at); }, -3, 3), at, 1e-7);
  }
}

TEST(Brent, StaysInTheInterval) {
  EXPECT_NEAR(brent_minimum([](double x) { return x; }, -3, 3), -3, 1e-6);
  EXPECT_NEAR(brent_minimum([](double x) { return -x; }, -3, 3), 3, 1e-6);
}

}  // namespace
}  // namespace regauge
