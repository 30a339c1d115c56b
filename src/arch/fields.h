#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "regauge/arch/architecture.h"

namespace regauge {

// An architecture as a flat object: to_json with one true or false per bias, "biases.q" and so on.
nlohmann::json flat_fields(const Architecture& architecture);
// The inverse. Fields that are absent get architecture_from_json's defaults; throws UsageError.
Architecture architecture_from_flat(const nlohmann::json& fields);

}  // namespace regauge
