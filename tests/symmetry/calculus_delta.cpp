#include "calculus_delta.h"

namespace regauge::calculus_system {
namespace {

// Positions are independent, so that what the convolution makes of a channel, sum over t of
// kernel[t] y[t], keeps every kernel[t] y: an activation behind it passes nothing on.
void convolution(System& system, const Wire& y, const Tensor& kernels, bool rigid) {
  if (rigid) system.require(kernels.change);
  for (Index t = 0; t < kernels.value.rows(); ++t) {
    const Dense taps = kernels.value.row(t).asDiagonal();
    system.require(y.change * taps + y.value * diagonal(kernels.change.row(t)));
  }
}

}  // namespace

Wire delta_net(System& system, const DeltaNet& shape, const Tensors& tensors, const std::string& at,
               const Wire& x, bool rigid) {
  const auto read = [&](const std::string& name) {
    const Tensor& weight = tensors.at(at + name + ".weight");
    return product(x, weight, 0, weight.value.cols());
  };
  for (const char* name : {"q", "k", "v"}) {
    convolution(system, read(name), tensors.at(at + name + "_conv.weight"), rigid);
  }
  // Behind softplus, sigmoid and SiLU nothing changes; the decay multiplies a function that cannot.
  Wire a = read("a");
  add_to_base(a, tensors.at(at + "a.bias"));
  system.require(a.change);
  system.require(read("b").change);
  system.require(read("z").change);
  system.require(tensors.at(at + "decay").change);
  // Every channel of every head is a function of its own.
  const Index n = shape.values();
  const Tensor& gain = tensors.at(at + "norm.gain");
  Dense gains(1, n);
  Forms changes(1, n);
  for (Index i = 0; i < n; ++i) {
    gains(0, i) = gain.value(0, i % shape.value_width);
    changes(0, i) = gain.change(0, i % shape.value_width);
  }
  const Wire hidden{with_row(gains.row(0).asDiagonal(), Dense::Zero(1, n)),
                    stack(diagonal(changes), Forms(1, n))};
  const Tensor& o = tensors.at(at + "o.weight");
  return product(hidden, o, 0, o.value.cols());
}

Wire gated(System& system, const Wire& v) {
  const Index n = v.value.cols();
  const Forms scales = scaled(system, v);
  return {with_row(Dense::Identity(n, n), Dense::Zero(1, n)), stack(diagonal(scales), Forms(1, n))};
}

}  // namespace regauge::calculus_system
