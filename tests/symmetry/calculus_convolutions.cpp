#include "calculus_convolutions.h"

namespace regauge::calculus_system {
namespace {

Dense centre(Index d) {
  return Dense::Identity(d, d) - Dense::Constant(d, d, 1.0 / static_cast<double>(d));
}

Dense convolved(System& system, const Architecture& a, const Tensors& tensors,
                const Similarity& stream, const Dense& seen, Mistake mistake) {
  const bool rigid = mistake != Mistake::gelu_forgotten;
  const auto require_following = [&](const Tensor& rows) {
    system.require((rows.change - rows.value * stream.total) * seen);
  };
  for (std::size_t i = 0; i < a.convolutions.size(); ++i) {
    for (const char* part : {".weight", ".bias"}) {
      const auto found = tensors.find(a.convolution(i) + part);
      if (found == tensors.end()) continue;
      if (rigid || i + 1 < a.convolutions.size()) {
        system.require(found->second.change);
      } else {
        require_following(found->second);
      }
    }
  }
  const Dense everything = Dense::Identity(a.width, a.width);
  if (rigid) system.require(everything * stream.total * seen);
  require_following(tensors.at("encoder.embed.positions"));
  return everything;
}

void require_sounds(System& system, const Architecture& a, const Tensors& tensors,
                    Mistake mistake) {
  const auto has = [&](const std::string& name) { return tensors.contains(name); };
  for (std::size_t i = 0; i < a.convolutions.size(); ++i) {
    const std::string name = a.convolution(i);
    const bool centred = a.convolution_norm == ConvolutionNorm::layer;
    const Index d = a.convolutions[i].channels;
    for (const char* part : {".weight", ".bias"}) {
      if (!has(name + part)) continue;
      const Forms& change = tensors.at(name + part).change;
      system.require(centred ? change * centre(d) : change);
    }
    for (const char* part : {".norm.gain", ".norm.bias"}) {
      if (has(name + part)) system.require(tensors.at(name + part).change);
    }
  }
  const Index d = a.mapped_width();
  const Dense everything = Dense::Identity(d, d);
  Wire x{with_row(everything, Dense::Zero(1, d)), Forms(d + 1, d)};
  if (a.input_norm) {
    const Tensor& gain = tensors.at("embed.input.norm.gain");
    const Dense scale = gain.value.row(0).asDiagonal();
    const Dense unit = row_basis(centre(d));
    x = {with_row(unit * scale, Dense::Zero(1, d)),
         stack(unit * diagonal(gain.change), Forms(1, d))};
    add_to_base(x, tensors.at("embed.input.norm.bias"));
  }
  Wire h = product(x, tensors.at("embed.input.weight"), 0, a.width);
  add_to_base(h, tensors.at("embed.input.bias"));
  system.require(h.change);
  const Tensor& kernel = tensors.at("embed.positional.weight");
  const Forms lengths = system.wire(1, a.positional_kernel, System::sublayer);
  const bool divided = mistake != Mistake::length_forgotten;
  system.require(divided ? kernel.change - diagonal(lengths) * kernel.value : kernel.change);
  system.require(tensors.at("embed.positional.length").change);
  system.require(tensors.at("embed.positional.bias").change);
}

}  // namespace

Dense heard(System& system, const Architecture& a, const Tensors& tensors, const Similarity& stream,
            const Dense& seen, Mistake mistake) {
  if (a.encodes_vectors()) return convolved(system, a, tensors, stream, seen, mistake);
  require_sounds(system, a, tensors, mistake);
  const Dense everything = Dense::Identity(a.width, a.width);
  system.require(everything * stream.total * seen);
  return everything;
}

}  // namespace regauge::calculus_system
