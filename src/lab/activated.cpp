#include "activated.h"

#include <stdexcept>

namespace regauge::lab {

at::Tensor activated(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::relu:
      return at::relu(x);
    case Activation::relu_squared:
      return at::relu(x).square();
    case Activation::gelu:
      return at::gelu(x);
    case Activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case Activation::gelu_quick:
      return x * at::sigmoid(1.702 * x);
    case Activation::silu:
      return at::silu(x);
    case Activation::tanh:
      return at::tanh(x);
  }
  throw std::logic_error("an activation without a forward pass");
}

}  // namespace regauge::lab
