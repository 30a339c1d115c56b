#include "delta_net.h"

#include <cmath>

namespace regauge::lab {
namespace {

// Each channel's kernel over a position and those before it, and SiLU.
at::Tensor convolved(const at::Tensor& x, const at::Tensor& kernels) {
  const std::int64_t taps = kernels.size(0), positions = x.size(1);
  const at::Tensor padded = at::constant_pad_nd(x, {0, 0, taps - 1, 0});
  at::Tensor sum = padded.narrow(1, 0, positions) * kernels[0];
  for (std::int64_t t = 1; t < taps; ++t) {
    sum = sum + padded.narrow(1, t, positions) * kernels[t];
  }
  return at::silu(sum);
}

at::Tensor of_length_one(const at::Tensor& x) {
  return x * at::rsqrt((x * x).sum(-1, true) + DeltaNet::kLengthEps);
}

}  // namespace

at::Tensor delta_net(const DeltaNet& shape, double norm_eps, const Tensors& parameters,
                     const std::string& at, const at::Tensor& x) {
  const auto read = [&](const char* name) {
    return at::matmul(x, parameters.at(at + name + ".weight"));
  };
  const auto channels = [&](const char* name, std::int64_t width) {
    const at::Tensor kernels = parameters.at(at + name + "_conv.weight");
    return convolved(read(name), kernels).unflatten(2, {-1, width});
  };
  const std::int64_t positions = x.size(1);
  // [sequences, positions, value heads, width]
  const at::Tensor q =
      of_length_one(channels("q", shape.key_width)).repeat_interleave(shape.group(), 2) /
      std::sqrt(static_cast<double>(shape.key_width));
  const at::Tensor k =
      of_length_one(channels("k", shape.key_width)).repeat_interleave(shape.group(), 2);
  const at::Tensor v = channels("v", shape.value_width);
  const at::Tensor step = at::softplus(read("a") + parameters.at(at + "a.bias"));
  const at::Tensor kept = at::exp(-at::exp(parameters.at(at + "decay")) * step);
  const at::Tensor written = at::sigmoid(read("b"));
  at::Tensor state =
      at::zeros({x.size(0), shape.value_heads, shape.key_width, shape.value_width}, x.options());
  std::vector<at::Tensor> all;
  for (std::int64_t t = 0; t < positions; ++t) {
    const auto row = [&](const at::Tensor& y) { return y.select(1, t).unsqueeze(2); };
    const auto number = [&](const at::Tensor& y) {
      return y.select(1, t).unsqueeze(2).unsqueeze(3);
    };
    state = state * number(kept);
    const at::Tensor change = (row(v) - at::matmul(row(k), state)) * number(written);
    state = state + at::matmul(row(k).transpose(2, 3), change);
    all.push_back(at::matmul(row(q), state).squeeze(2));
  }
  const at::Tensor normed = at::rms_norm(at::stack(all, 1), {shape.value_width},
                                         parameters.at(at + "norm.gain").squeeze(0), norm_eps);
  const at::Tensor gate = at::silu(read("z")).unflatten(2, {-1, shape.value_width});
  return at::matmul((normed * gate).flatten(2), parameters.at(at + "o.weight"));
}

}  // namespace regauge::lab
