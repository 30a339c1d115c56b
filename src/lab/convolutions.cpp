#include "convolutions.h"

namespace regauge::lab {

at::Tensor convolved(const Architecture& a, const Tensors& parameters, const at::Tensor& vectors) {
  at::Tensor x = vectors.transpose(1, 2);
  for (std::size_t i = 0; i < a.convolutions.size(); ++i) {
    const Convolution& of = a.convolutions[i];
    const std::string at = a.convolution(i);
    const at::Tensor weight = parameters.at(at + ".weight").t();
    std::optional<at::Tensor> bias;
    if (of.bias) bias = parameters.at(at + ".bias").squeeze(0);
    x = at::conv1d(x, weight.reshape({of.channels, x.size(1), of.kernel}), bias, of.stride,
                   of.padding);
    if (a.has_norm_behind(i)) {
      const at::Tensor gain = parameters.at(at + ".norm.gain").squeeze(0);
      const at::Tensor shift = parameters.at(at + ".norm.bias").squeeze(0);
      const double eps = Architecture::kConvolutionEps;
      x = a.convolution_norm == ConvolutionNorm::layer
              ? at::layer_norm(x.transpose(1, 2), {of.channels}, gain, shift, eps).transpose(1, 2)
              : at::group_norm(x, of.channels, gain, shift, eps);
    }
    x = at::gelu(x);
  }
  return x.transpose(1, 2);
}

at::Tensor positional(const Architecture& a, const Tensors& parameters, const at::Tensor& stream) {
  const std::string at = "embed.positional.";
  const at::Tensor& kernel = parameters.at(at + "weight");
  const at::Tensor scales = parameters.at(at + "length") / kernel.norm(2, {1}).unsqueeze(0);
  const at::Tensor weight =
      (kernel.t() * scales).reshape({a.width, a.width / a.positional_groups, a.positional_kernel});
  const at::Tensor y =
      at::conv1d(stream.transpose(1, 2), weight, parameters.at(at + "bias").squeeze(0), 1,
                 a.positional_kernel / 2, 1, a.positional_groups);
  return at::gelu(y.narrow(2, 0, stream.size(1))).transpose(1, 2);
}

}  // namespace regauge::lab
