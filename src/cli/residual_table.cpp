#include "residual_table.h"

#include <algorithm>
#include <cmath>

#include "print.h"

namespace regauge::cli {

void print_residuals(std::vector<TensorResidual> residuals, std::size_t lines) {
  std::stable_sort(
      residuals.begin(), residuals.end(),
      [](const TensorResidual& a, const TensorResidual& b) { return a.excess > b.excess; });
  const std::size_t count = lines == 0 ? residuals.size() : std::min(lines, residuals.size());
  answer("  {:<34}{:>16}{:>16}  <- more than rounding explains\n", "tensor", "relative error",
         "from rounding");
  for (std::size_t i = 0; i < count; ++i) {
    const TensorResidual& r = residuals[i];
    const double size = r.size > 0 ? r.size : 1;
    const std::string where =
        r.agrees() ? "" : "  <- " + (r.standing_out.empty() ? "as a whole" : r.standing_out);
    answer("  {:<34}{:>16.2g}{:>16.2g}{}\n", r.tensor, r.residual / size, r.rounding / size, where);
  }
  if (count < residuals.size()) answer("  and {} more\n", residuals.size() - count);
}

nlohmann::json residuals_as_json(const std::vector<TensorResidual>& residuals) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& r : residuals) {
    list.push_back({{"tensor", r.tensor},
                    {"size", r.size},
                    {"residual", r.residual},
                    {"rounding", r.rounding},
                    {"relation", relation_name(r.relation)},
                    {"excess", r.excess},
                    {"stands_out", r.standing_out},
                    {"agrees", r.agrees()}});
  }
  return list;
}

}  // namespace regauge::cli
