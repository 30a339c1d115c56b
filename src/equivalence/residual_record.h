#pragma once

#include <nlohmann/json_fwd.hpp>

#include "regauge/equivalence/compare.h"

namespace regauge {

// As a part records it (io/parts.h); nothing is lost.
void to_json(nlohmann::json& json, const TensorResidual& residual);
void from_json(const nlohmann::json& json, TensorResidual& residual);

}  // namespace regauge
