#include "activation.h"

#include <cmath>
#include <numbers>

namespace regauge {

template <class Scalar>
void activate(Activation activation, Matrix<Scalar>& values) {
  auto x = values.array();
  switch (activation) {
    case Activation::relu:
      x = x.max(Scalar{0});
      return;
    case Activation::relu_squared:
      x = x.max(Scalar{0}).square();
      return;
    case Activation::gelu:
      x *= (x * static_cast<Scalar>(-1 / std::numbers::sqrt2)).unaryExpr([](Scalar y) {
        return std::erfc(y) / 2;
      });
      return;
    case Activation::gelu_tanh: {
      const auto scale = static_cast<Scalar>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
      x *= (1 + (scale * (x + static_cast<Scalar>(0.044715) * x.cube())).tanh()) / 2;
      return;
    }
    case Activation::gelu_quick:
      x /= 1 + (static_cast<Scalar>(-1.702) * x).exp();
      return;
    case Activation::silu:
      x /= 1 + (-x).exp();
      return;
    case Activation::tanh:
      x = x.tanh();
      return;
  }
}
template void activate(Activation, Matrix<float>&);
template void activate(Activation, Matrix<double>&);

}  // namespace regauge
