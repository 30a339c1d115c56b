#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

#include "family.h"

namespace regauge {

// A value of a config as a field's value, through the entry's table; nothing when no row fits.
std::optional<nlohmann::json> field_from_config(const ConfigEntry& entry,
                                                const nlohmann::json& value);
// The way back: the first row that gives it.
std::optional<nlohmann::json> config_from_field(const ConfigEntry& entry,
                                                const nlohmann::json& value);

// The list of objects that the entry's keys say item by item, a key that is no list the same for
// all; nothing where a key is missing, or where lists are of different lengths.
std::optional<nlohmann::json> joined_parts(const ConfigEntry& entry, const nlohmann::json& config);

// True for a string that starts with '='.
bool is_formula(const nlohmann::json& term);

// GGUF and llama2.c keep 32-bit floats: the shortest decimal that rounds to the same float is what
// was meant (1e-05).
nlohmann::json as_written(const nlohmann::json& value, Format format);

// A number as the type that `like` has (whole, real, true/false); nothing when it does not fit.
std::optional<nlohmann::json> coerced(const nlohmann::json& value, const nlohmann::json& like);

}  // namespace regauge
