#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "regauge/arch/architecture.h"

namespace regauge {

// architecture_from_json for what need not be valid by itself: one kind of a model's layers.
Architecture unchecked_from_json(const nlohmann::json& json);

// An architecture as a flat object: complete_json with one true or false per bias, "biases.q"
// and so on.
nlohmann::json flat_fields(const Architecture& architecture);
// The inverse, unchecked. Fields that are absent get architecture_from_json's defaults; throws
// UsageError for those that cannot be read.
Architecture architecture_from_flat(const nlohmann::json& fields);

}  // namespace regauge
