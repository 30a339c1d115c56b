#include "arch/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace regauge {
namespace {

double exact(Activation activation, double x) {
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  switch (activation) {
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::relu_squared:
      return x > 0 ? x * x : 0;
    case Activation::gelu:
      return x * std::erfc(-x / std::numbers::sqrt2) / 2;
    case Activation::gelu_tanh:
      return x / 2 * (1 + std::tanh(inner));
    case Activation::gelu_quick:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
  }
  return std::nan("");
}

template <class Scalar>
void check(double tolerance) {
  for (const auto activation :
       {Activation::relu, Activation::relu_squared, Activation::gelu, Activation::gelu_tanh,
        Activation::gelu_quick, Activation::silu, Activation::tanh}) {
    Matrix<Scalar> x(7, 401);
    for (Eigen::Index i = 0; i < x.size(); ++i) {
      x.data()[i] = static_cast<Scalar>(0.02 * static_cast<double>(i - x.size() / 2));
    }
    Matrix<Scalar> y = x;
    activate(activation, y);
    for (Eigen::Index i = 0; i < x.size(); ++i) {
      const double wanted = exact(activation, static_cast<double>(x.data()[i]));
      EXPECT_NEAR(y.data()[i], wanted, tolerance * (1 + std::abs(wanted)));
    }
  }
}

TEST(Activation, EveryEntryAsDefined) {
  check<float>(1e-6);
  check<double>(1e-14);
}

}  // namespace
}  // namespace regauge
