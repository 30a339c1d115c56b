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
//   yarn: the same with a ramp over the numbers of the pairs; and q and k are multiplied by
//         attention_factor where they rotate
//   proportional: divided by factor, and 0 but for the first `turning` of the pairs
struct Rope {
  double theta = 10000;
  std::string type = "default";
  double factor = 1;
  double turning = 1;
  double low_freq_factor = 0;
  double high_freq_factor = 0;
  double original_positions = 0;
  double beta_fast = 32;  // turns within the original positions at both ends of the ramp
  double beta_slow = 1;
  bool truncate = true;  // the ramp begins and ends at whole numbers
  double attention_factor = 1;
  double logit_factor = 1;  // on all logits, whether their coordinates rotate or not
};

// A key of an object of settings that says yarn; the other types have no use for it.
bool is_yarn_setting(const nlohmann::json& settings, const std::string& key);

std::vector<double> scaled_frequencies(const Rope& rope, std::int64_t dims);

// Of a grid: as for half as many coordinates, in turns, and once for each axis (DINOv3).
std::vector<double> grid_frequencies(const Rope& rope, std::int64_t dims);

// The value on which all spellings that are present and not null agree; nullptr when there is none.
// Two that disagree add to `problems`, and the first counts.
const nlohmann::json* agreed_value(const RopeEntry& entry, const nlohmann::json& config,
                                   const std::vector<std::string>& keys,
                                   std::vector<std::string>& problems);

// Spellings that nothing reads must say `value` or be absent; else they add to `problems`.
void check_echoes(const RopeEntry& entry, const nlohmann::json& config,
                  const std::vector<std::string>& keys, double value,
                  std::vector<std::string>& problems);

// The settings in a config. An unknown type, or one with a setting missing, adds to `problems`.
Rope read_rope(const RopeEntry& entry, const nlohmann::json& config,
               std::vector<std::string>& problems);

// Default, linear or proportional settings that give these frequencies to 1e-12; nothing when there
// are none.
std::optional<Rope> fit_rope(const std::vector<double>& frequencies);

// Unscaled settings with the first two of these frequencies, which no scaling of long wavelengths
// touches. The rest is left to divisors.
Rope unscaled_rope(const std::vector<double>& frequencies);

// Puts default, linear or proportional settings into a config, leaving the spelling that it has.
void write_rope(const RopeEntry& entry, const Rope& rope, nlohmann::json& config);

}  // namespace regauge
