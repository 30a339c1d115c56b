#include "convolution_problems.h"

#include <fmt/format.h>

#include <algorithm>

namespace regauge {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 20;  // of channels, kernels and strides

bool is_size(std::int64_t value) { return value > 0 && value <= kMost; }

bool is_good(const Convolution& of) {
  return is_size(of.channels) && is_size(of.kernel) && is_size(of.stride) && of.padding >= 0 &&
         of.padding < of.kernel;
}

}  // namespace

std::vector<std::string> problems_of_convolutions(const Architecture& a) {
  std::vector<std::string> problems;
  const auto require = [&](bool holds, std::string problem) {
    if (!holds) problems.push_back(std::move(problem));
  };
  const bool encoder = a.encodes_vectors(), any = !a.convolutions.empty();
  const bool pre = a.kinds.front().placement == Placement::pre;
  const bool learned = a.position_table == PositionTable::learned;
  require(
      any == (encoder || a.has_positional()),
      "convolutions need encoder_layers and input_width, or positional_kernel, which need them");
  require(a.encoder_positions == 0 || (encoder && is_size(a.encoder_positions)),
          "encoder_positions is a number from 0 to 2^20, and needs an encoder of vectors");
  require(std::ranges::all_of(a.convolutions, is_good),
          "the channels, kernel and stride of a convolution are numbers from 1 to 2^20, and its "
          "padding is below its kernel");
  require(any || (a.convolution_norm == ConvolutionNorm::none && !a.input_norm),
          "convolution_norm and input_norm need convolutions");
  require(!encoder || (any && a.convolutions.back().channels == a.width),
          fmt::format("the last convolution of an encoder writes width = {} channels", a.width));
  require(!encoder ||
              (pre && learned && !a.embedding_norm && a.encoder_vocabulary == 0 &&
               a.deep_inputs == 0 && a.convolution_norm == ConvolutionNorm::none && !a.input_norm),
          "an encoder of vectors needs placement 'pre' and positions 'learned', and neither an "
          "embedding norm, encoder_vocabulary, deep_inputs, convolution_norm nor input_norm");
  require(a.convolution_norm != ConvolutionNorm::first || !any || !a.convolutions.front().bias,
          "a bias of the first convolution in front of convolution_norm 'first', which does not "
          "see it, is not understood");
  const bool normed = a.convolution_norm != ConvolutionNorm::none || a.input_norm;
  require(!normed || (a.norm == Norm::layer && a.norm_bias),
          "convolution_norm and input_norm need norm 'layer' and norm_bias");
  require(!a.input_norm || a.input_bias, "input_norm needs input_bias");
  require(a.positional_kernel >= 0 && a.positional_kernel <= kMost && a.positional_groups > 0 &&
              a.positional_groups <= kMost && (a.has_positional() || a.positional_groups == 1),
          "positional_kernel is a number from 0 to 2^20, and positional_groups one from 1 on, 1 "
          "without a kernel");
  if (!a.has_positional()) return problems;
  require(a.positional_groups > 0 && a.width % a.positional_groups == 0,
          fmt::format("positional_groups ({}) is not a divisor of width ({})", a.positional_groups,
                      a.width));
  require(a.positional_groups > 0 && a.width / a.positional_groups <= a.mapped_width(),
          "a group of the positional convolution is wider than the vectors that the map reads, so "
          "that some of it would not be read");
  require(a.input == Input::vectors && any && a.input_bias && !a.class_token &&
              !a.has_position_table() && a.norm == Norm::layer && a.norm_eps > 0,
          "positional_kernel needs input 'vectors', convolutions, input_bias, norm 'layer' and "
          "norm_eps above 0, and neither a class_token nor a position table");
  require(a.embedding_norm ? a.kinds.front().placement == Placement::post : pre,
          "positional_kernel needs placement 'post' and an embedding norm, or 'pre' and none");
  return problems;
}

}  // namespace regauge
