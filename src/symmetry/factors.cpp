#include "factors.h"

#include <fmt/format.h>

#include "arch/names.h"

namespace regauge {

std::vector<Factor> factors_of(const Symmetry& symmetry) {
  std::vector<Factor> factors;
  const auto add = [&](const std::string& name, std::string_view category, std::string group,
                       std::int64_t dimension, double log2_components) {
    const std::string pattern = across_layers(name, '*');
    for (auto& factor : factors) {
      if (factor.name != pattern || factor.group != group) continue;
      ++factor.times;
      factor.dimension += dimension;
      factor.log2_components += log2_components;
      return;
    }
    factors.push_back(
        {pattern, std::string(category), std::move(group), 1, dimension, log2_components});
  };
  for (const auto& space : symmetry.spaces) {
    if (space.dimension() == 0 && space.log2_components() == 0) continue;
    add(space.name, category_name(space.category), space.group_name(), space.dimension(),
        space.log2_components());
  }
  for (const auto& shift : symmetry.shifts) {
    add(shift.name, category_name(Category::shifts),
        fmt::format("R^{}{}", shift.dimension, shift.depends_on_values ? ", counted" : ""),
        shift.dimension, 0);
  }
  return factors;
}

}  // namespace regauge
