#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "family.h"

namespace regauge {

// What data/harmless-keys.json says about the configs of a format, whatever the family.
struct KnownKeys {
  std::vector<KeyRule> harmless;
  std::vector<std::pair<std::string, std::string>> refused;  // (key, why)
};

// Throws UsageError that names the file.
std::map<std::string, KnownKeys> parse_known_keys(std::string_view file, std::string_view text);
// As compiled in.
const KnownKeys& known_keys(Format format);

// Every path that the family's data file reads: fields, variables, requirements, rotary settings.
std::vector<std::string> keys_read(const Family& family);

// A value of a rule, of which a string that starts with '=' is a formula.
using Term = std::function<nlohmann::json(const nlohmann::json&)>;

// The keys of a config that the family neither reads nor knows to be harmless with the value that
// they have, as paths such as "rope_parameters/factor", and their values as ASCII JSON. Of an
// object that has a part which is read or harmless, the other parts are named one by one.
std::map<std::string, std::string> keys_not_understood(const Family& family,
                                                       const nlohmann::json& config,
                                                       const Term& term);

}  // namespace regauge
