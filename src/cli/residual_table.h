#pragma once

#include <nlohmann/json.hpp>

#include <vector>

#include "regauge/equivalence/compare.h"

namespace regauge::cli {

// One line per tensor, the worst first; at most `lines` of them, all if 0.
void print_residuals(std::vector<TensorResidual> residuals, std::size_t lines);
nlohmann::json residuals_as_json(const std::vector<TensorResidual>& residuals);

}  // namespace regauge::cli
