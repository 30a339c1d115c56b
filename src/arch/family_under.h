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

// `child` over `parent`: entries of the maps are replaced one by one, null removes one.
nlohmann::ordered_json merged(nlohmann::ordered_json parent, const nlohmann::ordered_json& child);
// The word {family} in keys and values stands for the family's name, as the format's programs spell
// it, and {class} for how transformers' classes begin.
nlohmann::ordered_json with_name(const nlohmann::ordered_json& json);

}  // namespace regauge
