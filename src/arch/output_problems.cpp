#include "output_problems.h"

#include <fmt/format.h>

#include <cmath>

namespace regauge {
namespace {

constexpr std::int64_t kMostClasses = std::int64_t{1} << 31;

}  // namespace

std::vector<std::string> problems_of_outputs(const Architecture& a) {
  std::vector<std::string> problems;
  const auto require = [&](bool holds, const char* problem) {
    if (!holds) problems.emplace_back(problem);
  };
  const bool tokens = a.output.has(Output::tokens), classes = a.output.has(Output::classes);
  if (classes) {
    if (a.classes <= 0 || a.classes > kMostClasses) {
      problems.push_back(
          fmt::format("classes is {}; expected a positive number below 2^31", a.classes));
    }
  } else {
    require(a.classes == 0, "classes needs output 'classes'");
    require(!a.classes_everywhere, "classes_everywhere needs output 'classes'");
  }
  require(!a.last_position || (!a.causal && (classes || a.pooler)),
          "last_position needs output 'classes' or a pooler, and a model that is not "
          "causal");
  require(!a.classes_pooled || (classes && a.pooler),
          "classes_pooled needs output 'classes' and a pooler");
  require(!a.pooler || a.classes_pooled || a.output.has(Output::pooled),
          "a pooler needs output 'pooled' or classes_pooled");
  require(a.pooler || !a.output.has(Output::pooled), "output 'pooled' needs a pooler");
  require(a.pooler || a.pooler_activation == Activation::tanh, "pooler_activation needs a pooler");
  require(a.pooler_activation != Activation::relu_squared,
          "activation 'relu_squared' of a pooler is not understood");
  require(!a.tied || tokens, "tied needs output 'tokens'");
  require(!a.head_bias || a.has_head(), "a head bias needs a head");
  require(std::isfinite(a.logit_scale) && a.logit_scale != 0,
          "logit_scale is not a number other than 0");
  require(std::isfinite(a.logit_softcap) && a.logit_softcap >= 0,
          "logit_softcap is not a number >= 0");
  require((a.logit_scale == 1 && a.logit_softcap == 0) || (tokens != classes),
          "logit_scale and logit_softcap need one head");
  require(!a.log_probabilities || a.has_head(), "log_probabilities needs a head");
  require(!a.mean_position || (classes && !tokens && !a.classes_everywhere && !a.classes_pooled &&
                               !a.last_position),
          "mean_position needs output 'classes' without tokens, and neither classes_everywhere, "
          "classes_pooled nor last_position");
  require(
      !a.head_transform || ((tokens || (classes && !a.classes_pooled)) && a.encoder_layers == 0),
      "head_transform needs output 'tokens', or 'classes' without classes_pooled, and one stack");
  require(a.transform_bias || a.head_transform, "transform_bias is of a head_transform");
  return problems;
}

}  // namespace regauge
