#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "family.h"

namespace regauge {

// Frequencies as configs state them: theta^(-2b/dims), then scaled.
//   default: as they are      linear: divided by factor
//   llama3: long wavelengths are divided by factor, short ones kept, a ramp between
struct Rope {
  double theta = 10000;
  std::string type = "default";
  double factor = 1;
  double low_freq_factor = 0;
  double high_freq_factor = 0;
  double original_positions = 0;
};

std::vector<double> scaled_frequencies(const Rope& rope, std::int64_t dims);

// The value on which all spellings that are present and not null agree; nullptr when there is none.
// Two that disagree add to `problems`, and the first counts.
const nlohmann::json* agreed_value(const RopeEntry& entry, const nlohmann::json& config,
                                   const std::vector<std::string>& keys,
                                   std::vector<std::string>& problems);

// Spellings that nothing reads must say `value` or be absent; else they add to `problems`.
void check_echoes(const RopeEntry& entry, const nlohmann::json& config,
                  const std::vector<std::string>& keys, double value,
                  std::vector<std::string>& problems);

// The settings in a config. A type other than default, linear and llama3, or one with a setting
// missing, adds to `problems`.
Rope read_rope(const RopeEntry& entry, const nlohmann::json& config,
               std::vector<std::string>& problems);

// Default or linear settings that give these frequencies to 1e-12; nothing when there are none.
std::optional<Rope> fit_rope(const std::vector<double>& frequencies);

// Unscaled settings with the first two of these frequencies, which no scaling of long wavelengths
// touches. The rest is left to divisors.
Rope unscaled_rope(const std::vector<double>& frequencies);

// Puts default or linear settings into a config, leaving the spelling that it has.
void write_rope(const RopeEntry& entry, const Rope& rope, nlohmann::json& config);

}  // namespace regauge
