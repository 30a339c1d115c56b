#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace regauge {

// A data file as if its keys stood in these objects of the config ("text_config"); "" is the config
// itself. Every field gets as many spellings, which must agree where several are there. What is
// required, is required beside them, too. Where layers differ, one object is what can be named.
// Throws UsageError for more.
nlohmann::ordered_json under_objects(nlohmann::ordered_json family,
                                     const std::vector<std::string>& objects);

}  // namespace regauge
