#include "contacts.h"

namespace regauge::lab {
namespace {

constexpr std::int64_t kEndOfProtein = 2;

}  // namespace

at::Tensor seen_for_contacts(const at::Tensor& tokens, at::ScalarType type) {
  const at::Tensor kept = (tokens != kEndOfProtein).to(type);
  return (kept.unsqueeze(1) * kept.unsqueeze(2)).unsqueeze(1);
}

at::Tensor contacts_of(const at::Tensor& patterns, const at::Tensor& seen,
                       const at::Tensor& weights) {
  const std::int64_t inner = patterns.size(3) - 2;
  const at::Tensor kept = (patterns * seen).narrow(2, 1, inner).narrow(3, 1, inner);
  const at::Tensor both = kept + kept.transpose(2, 3);
  const at::Tensor rows = both.sum(3, true), columns = both.sum(2, true);
  const at::Tensor corrected = both - rows * columns / both.sum({2, 3}, true);
  return (corrected * weights.view({1, -1, 1, 1})).sum(1);
}

}  // namespace regauge::lab
