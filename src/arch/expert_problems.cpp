#include "expert_problems.h"

#include <fmt/format.h>

#include <cmath>

namespace regauge {
namespace {

constexpr std::int64_t kMostExperts = std::int64_t{1} << 31;

bool is_plain_router(const Experts& e) {
  return e.scoring == Scoring::softmax && !e.selection_bias && e.weight_scale == 1 &&
         !e.has_groups();
}

}  // namespace

std::vector<std::string> problems_of_experts(const Layer& layer, Norm norm) {
  std::vector<std::string> problems;
  const auto require = [&](bool holds, std::string problem) {
    if (!holds) problems.push_back(std::move(problem));
  };
  const FeedForward& f = layer.ffn;
  const Experts& e = f.experts;
  if (e.count == 0) {
    require(e == Experts{}, "what is said of experts and their router needs experts");
    return problems;
  }
  require(e.count > 0 && e.count < kMostExperts,
          fmt::format("experts is {}; expected a positive number below 2^31", e.count));
  require(e.active > 0 && e.active <= e.count,
          fmt::format("active_experts is {}; expected 1 to experts = {}", e.active, e.count));
  require(e.shared_width >= 0 && e.shared_width < kMostExperts,
          "shared_expert_width is not a number from 0 to 2^31");
  require(!e.shared_gate || e.shared_width > 0, "shared_expert_gate needs shared_expert_width");
  require(!e.renormalised || e.active > 1,
          "one active expert of weight one, chosen by a router that does nothing else, is "
          "not understood");
  require(std::isfinite(e.weight_scale) && e.weight_scale > 0,
          "expert_weight_scale is not a positive number");
  const bool divided = e.groups > 0 && e.count % e.groups == 0;
  require(divided && e.active_groups > 0 && (e.has_groups() || e.groups == 1),
          fmt::format("expert_groups is {}, of which {} are active; expected a divisor of "
                      "experts = {}, and fewer active ones, or 1",
                      e.groups, e.active_groups, e.count));
  const std::int64_t size = divided ? e.count / e.groups : e.count;
  require(e.group_leaders > 0 && e.group_leaders <= (e.groups > 1 ? size : 1),
          fmt::format("expert_group_leaders is {}; expected 1 to the {} of a group, and 1 "
                      "without groups",
                      e.group_leaders, size));
  // Where all are taken a bias would only rank groups, or nothing.
  const std::int64_t most = e.active_groups * size - (e.selection_bias ? 1 : 0);
  require(!divided || e.active <= most,
          fmt::format("active_experts is {}; expected at most {} of the {} in the active "
                      "groups",
                      e.active, most, e.active_groups * size));
  const bool biases = f.biases.gate || f.biases.up || f.biases.down || e.router_bias;
  require(!biases || (layer.placement == Placement::pre && !layer.parallel && norm == Norm::rms &&
                      e.shared_width == 0 && is_plain_router(e)),
          "biases of experts or their router are understood in sequential layers with an "
          "rms norm before them and without a shared expert, behind a plain softmax");
  require(layer.norms_input(), "experts need a norm before them");
  require(!e.own_norms || (layer.placement == Placement::both && e.shared_width > 0 &&
                           !e.shared_gate && e.groups == 1 && e.active > 1),
          "expert_norms needs placement 'both', a shared expert without a gate, one group of "
          "experts, and more than one that is active");
  require(!e.scales || !biases, "expert_scales beside biases is not understood");
  require(std::isfinite(e.router_scale) && e.router_scale != 0,
          "router_scale is not a number other than 0");
  return problems;
}

}  // namespace regauge
