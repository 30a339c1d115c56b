#include "products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "equivalence/rounding.h"
#include "equivalence/tolerances.h"

namespace regauge {
namespace {

constexpr std::array<std::array<const char*, 2>, 9> kProducts = {
    {{".attn.q.weight", ".attn.k.weight"},
     {".attn.q_rotary.weight", ".attn.k_rotary.weight"},
     {".attn.v.weight", ".attn.o.weight"},
     {".attn.q_latent.weight", ".attn.q.weight"},
     {".attn.q_latent.weight", ".attn.q_rotary.weight"},
     {".attn.kv_latent.weight", ".attn.k.weight"},
     {".attn.kv_latent.weight", ".attn.v.weight"},
     {".ffn.up.weight", ".ffn.down.weight"},
     {".ffn.shared.up.weight", ".ffn.shared.down.weight"}}};

// What may hide in a tensor, of its size.
double hidden_share(const TensorResidual& r) {
  const double hidden = r.like_honest ? std::max(r.rounding, r.residual) : r.rounding;
  return r.size > 0 ? hidden / r.size : 0;
}

}  // namespace

void hide_coarse_products(const ParameterSource& a, const ParameterSource& b,
                          std::vector<TensorResidual>& residuals) {
  std::map<std::string, TensorResidual*> by_name;
  for (auto& r : residuals) by_name[r.tensor] = &r;
  for (auto& [name, first] : by_name) {
    for (const auto& [one, other] : kProducts) {
      if (!name.ends_with(one)) continue;
      const auto second =
          by_name.find(name.substr(0, name.size() - std::string(one).size()) + other);
      if (second == by_name.end()) continue;
      // Coarse types round both factors, whatever moved them.
      const double by_type = std::hypot(type_hides(a, b, name), type_hides(a, b, second->first));
      const double hidden = std::hypot(hidden_share(*first), hidden_share(*second->second));
      if (hidden <= std::max(kMostHidden, by_type)) continue;
      for (TensorResidual* factor : {first, second->second}) {
        if (factor->agrees() && !factor->by_entry) factor->relation = Relation::hidden;
      }
    }
  }
}

}  // namespace regauge
