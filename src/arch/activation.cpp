#include "regauge/arch/activation.h"

#include <algorithm>
#include <cmath>

namespace regauge {

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::gelu:
      return x * std::erfc(-x / std::sqrt(2.0)) / 2;
    case Activation::gelu_tanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / 3.141592653589793) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

}  // namespace regauge
