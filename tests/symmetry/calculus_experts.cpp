#include "calculus_experts.h"

namespace regauge::calculus_system {

void require_routing(System& system, const Experts& experts, const Wire& logits,
                     const std::map<std::string, Tensor>& tensors, const std::string& name,
                     regauge::Mistake mistake) {
  // Softmax sees differences of logits alone, a sigmoid each logit; each expert's neurons are
  // weighed by another function of x, so that they count one by one.
  const bool forgets = experts.scoring == Scoring::softmax
                           ? mistake != regauge::Mistake::router_shift_forgotten
                           : mistake == regauge::Mistake::sigmoid_forgotten;
  require_scores(system, logits.change, forgets);
  // What is only compared must keep every difference: an equation that no derivative of the output
  // knows.
  if (experts.selection_bias && mistake != regauge::Mistake::choice_forgotten) {
    require_scores(system, tensors.at(name + "selection.bias").change, true);
  }
}

Wire times_factors(const Wire& hidden, const Tensor& factors, Index width) {
  const Index experts = factors.value.cols();
  Dense repeated = Dense::Zero(experts, experts * width);
  for (Index i = 0; i < repeated.cols(); ++i) repeated(i / width, i) = 1;
  return times_gain(hidden, {factors.value * repeated, factors.change * repeated});
}

}  // namespace regauge::calculus_system
