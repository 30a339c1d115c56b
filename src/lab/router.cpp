#include "router.h"

#include <limits>

namespace regauge::lab {

at::Tensor expert_weights(const Experts& e, const at::Tensor& logits, const at::Tensor& bias) {
  const bool sigmoid = e.scoring == Scoring::sigmoid;
  const at::Tensor scores = sigmoid ? at::sigmoid(logits) : at::softmax(logits, -1);
  at::Tensor compared = bias.defined() ? scores + bias : scores;
  if (e.has_groups()) {
    const at::Tensor in_groups = compared.unflatten(-1, {e.groups, e.count / e.groups});
    const at::Tensor ranks = std::get<0>(in_groups.topk(e.group_leaders, -1)).sum(-1);
    const at::Tensor best = std::get<1>(ranks.topk(e.active_groups, -1));
    const at::Tensor closed = at::ones_like(ranks).scatter(-1, best, 0).unsqueeze(-1);
    compared = in_groups.masked_fill(closed.to(at::kBool), -std::numeric_limits<double>::infinity())
                   .flatten(-2);
  }
  const at::Tensor chosen = std::get<1>(compared.topk(e.active, -1));
  at::Tensor all = scores * at::zeros_like(scores).scatter(-1, chosen, 1);
  if (e.renormalised) all = all / all.sum(-1, true);
  return e.weight_scale == 1 ? all : e.weight_scale * all;
}

}  // namespace regauge::lab
