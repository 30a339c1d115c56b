#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace regauge {

// The value at a path such as "rope_parameters/rope_theta" or "architectures/0"; nullptr when there
// is none. A null value is found.
const nlohmann::json* find_path(const nlohmann::json& config, const std::string& path);

// Puts a value there; objects and lists on the way are made, anything else on the way is replaced.
void set_path(nlohmann::json& config, const std::string& path, nlohmann::json value);

}  // namespace regauge
