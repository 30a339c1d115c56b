#include "rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include "config_path.h"
#include "regauge/arch/architecture.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

// What stands beside the factor of type 'yarn'.
constexpr std::array kYarnSettings = {"beta_fast", "beta_slow",      "truncate",
                                      "mscale",    "mscale_all_dim", "attention_factor"};

// The first value that is there and not null.
const Json* first_of(const Json& config, const std::vector<std::string>& keys) {
  for (const auto& key : keys) {
    const Json* value = find_path(config, key);
    if (value != nullptr && !value->is_null()) return value;
  }
  return nullptr;
}

double number_of(const RopeEntry& entry, const Json& config, const std::vector<std::string>& keys,
                 double fallback, std::vector<std::string>& problems) {
  const Json* value = agreed_value(entry, config, keys, problems);
  if (value == nullptr) return fallback;
  if (!value->is_number()) {
    problems.push_back(fmt::format("'{}' is {}; expected a number", keys.front(), value->dump()));
    return fallback;
  }
  return value->get<double>();
}

std::string disagreement(const std::string& first, const Json& one, const std::string& second,
                         const Json& other, const std::string& resolution) {
  return fmt::format("'{}' says {} and '{}' says {}; {}; remove the wrong one", first, one.dump(),
                     second, other.dump(), resolution);
}

// "rope_scaling" of "rope_scaling/factor"; empty for a key that stands at the top, or at that of an
// object which holds the settings of a model.
std::string container_of(const RopeEntry& entry, const std::string& path) {
  std::size_t begin = 0;
  for (const auto& object : entry.under) {
    if (!object.empty() && path.starts_with(object + "/")) begin = object.size() + 1;
  }
  const std::size_t slash = path.find('/', begin);
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

bool has_entries(const Json& config, const std::string& container) {
  const Json* found = find_path(config, container);
  return found != nullptr && found->is_object() && !found->empty();
}

// `name` in the object in which the key stands: "rope_scaling/beta_fast" beside
// "rope_scaling/factor".
std::vector<std::string> beside(const std::vector<std::string>& keys, const std::string& name) {
  std::vector<std::string> result;
  for (const auto& key : keys) {
    const std::size_t slash = key.rfind('/');
    if (slash != std::string::npos) result.push_back(key.substr(0, slash + 1) + name);
  }
  return result;
}

// Two objects of settings must say the same things: the one that wins replaces the other as a
// whole, so that a setting which only the other has would be lost. A key at the top serves both.
void check_containers(const RopeEntry& entry, const Json& config,
                      std::vector<std::string>& problems) {
  std::vector<std::vector<std::string>> settings = {entry.theta,
                                                    entry.fraction,
                                                    entry.type,
                                                    entry.factor,
                                                    entry.low_freq_factor,
                                                    entry.high_freq_factor,
                                                    entry.original_positions};
  for (const char* name : kYarnSettings) settings.push_back(beside(entry.factor, name));
  for (const auto& keys : settings) {
    std::map<std::string, std::string> stated;  // container -> the key in it, or nothing
    bool at_top = false;
    for (const auto& key : keys) {
      const std::string container = container_of(entry, key);
      const Json* found = find_path(config, key);
      const bool said = found != nullptr && !found->is_null();
      if (container.empty()) {
        at_top = at_top || said;
      } else if (has_entries(config, container)) {
        std::string& known = stated[container];
        if (said && known.empty()) known = key;
      }
    }
    if (at_top || stated.size() < 2) continue;
    const auto with = std::find_if(stated.begin(), stated.end(),
                                   [](const auto& item) { return !item.second.empty(); });
    const auto without = std::find_if(stated.begin(), stated.end(),
                                      [](const auto& item) { return item.second.empty(); });
    if (with == stated.end() || without == stated.end()) continue;
    problems.push_back(fmt::format(
        "'{}' is {}, but '{}', which is there as well, does not say it; "
        "{}; remove the wrong one",
        with->second, find_path(config, with->second)->dump(), without->first, entry.resolution));
  }
}

double llama3_frequency(const Rope& rope, double frequency) {
  const double turns = rope.original_positions * frequency / (2 * std::numbers::pi);
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  if (turns > rope.high_freq_factor) return frequency;
  const double ramp =
      (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - ramp) * frequency / rope.factor + ramp * frequency;
}

double yarn_frequency(const Rope& rope, double frequency, std::size_t pair, std::int64_t dims) {
  // The number of the pair that turns so often within the original positions.
  const auto pair_that_turns = [&](double turns) {
    return static_cast<double>(dims) *
           std::log(rope.original_positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = pair_that_turns(rope.beta_fast), high = pair_that_turns(rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dims - 1));
  if (low == high) high += 0.001;
  const double ramp = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  return frequency / rope.factor * ramp + frequency * (1 - ramp);
}

void read_yarn(const RopeEntry& entry, const Json& config, Rope& rope,
               std::vector<std::string>& problems) {
  const auto setting = [&](const char* name, const std::vector<std::string>& further = {}) {
    std::vector<std::string> keys = beside(entry.factor, name);
    keys.insert(keys.end(), further.begin(), further.end());
    return number_of(entry, config, keys, 0, problems);
  };
  if (const double said = setting("beta_fast", entry.beta_fast); said != 0) rope.beta_fast = said;
  if (const double said = setting("beta_slow", entry.beta_slow); said != 0) rope.beta_slow = said;
  const Json* truncate = agreed_value(entry, config, beside(entry.factor, "truncate"), problems);
  rope.truncate = truncate == nullptr || *truncate == true;
  const auto grown = [&](double by) {
    return rope.factor <= 1 ? 1 : 0.1 * by * std::log(rope.factor) + 1;
  };
  const double mscale = setting("mscale"), all = setting("mscale_all_dim");
  rope.attention_factor = mscale != 0 && all != 0 ? grown(mscale) / grown(all) : grown(1);
  if (entry.scales_logits && all != 0) rope.logit_factor = grown(all) * grown(all);
  if (const Json* multiplier = agreed_value(entry, config, entry.log_multiplier, problems)) {
    const double grows = multiplier->is_number() ? multiplier->get<double>() : 0;
    rope.logit_factor = std::pow(1 + grows * std::log(std::max(rope.factor, 1.0)), 2);
    rope.attention_factor = 1;
  }
  const auto said = beside(entry.factor, "attention_factor");
  if (first_of(config, said) != nullptr) rope.attention_factor = setting("attention_factor");
  if (!(rope.theta > 1 && rope.beta_fast > 0 && rope.beta_slow > 0 && rope.attention_factor > 0)) {
    problems.push_back("rotary positions of type 'yarn' need positive settings and theta > 1");
    rope.type = "default";
  }
}

// A decimal of few digits if there is one within 1e-9, which is what people write in configs.
double plain(double value) {
  const double rounded = std::stod(fmt::format("{:.10g}", value));
  return std::abs(rounded - value) <= 1e-9 * std::abs(value) ? rounded : value;
}

// Writes to every spelling that is there; when none is, to the first in an object that is there,
// or else to the first.
void put(const RopeEntry& entry, Json& config, const std::vector<std::string>& keys,
         const Json& value) {
  bool written = false;
  for (const auto& key : keys) {
    if (find_path(config, key) == nullptr) continue;
    set_path(config, key, value);
    written = true;
  }
  for (const auto& key : keys) {
    const std::string container = container_of(entry, key);
    if (written || container.empty() || !has_entries(config, container)) continue;
    set_path(config, key, value);
    written = true;
  }
  if (!written && !keys.empty()) set_path(config, keys.front(), value);
}

}  // namespace

std::vector<double> grid_frequencies(const Rope& rope, std::int64_t dims) {
  std::vector<double> frequencies = scaled_frequencies(rope, dims / 2);
  for (double& frequency : frequencies) frequency *= 2 * std::numbers::pi;
  const auto half = static_cast<std::ptrdiff_t>(frequencies.size());
  frequencies.resize(2 * frequencies.size());
  std::copy_n(frequencies.begin(), half, frequencies.begin() + half);
  return frequencies;
}

std::vector<double> scaled_frequencies(const Rope& rope, std::int64_t dims) {
  std::vector<double> frequencies = rotary_frequencies(dims, rope.theta);
  for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
    double& frequency = frequencies[pair];
    if (rope.type == "linear" || rope.type == "proportional") frequency /= rope.factor;
    const double pairs = rope.turning * static_cast<double>(frequencies.size());
    if (rope.type == "proportional" && static_cast<double>(pair + 1) > pairs + 1e-9) frequency = 0;
    if (rope.type == "llama3") frequency = llama3_frequency(rope, frequency);
    if (rope.type == "yarn") frequency = yarn_frequency(rope, frequency, pair, dims);
  }
  return frequencies;
}

void check_echoes(const RopeEntry& entry, const Json& config, const std::vector<std::string>& keys,
                  double value, std::vector<std::string>& problems) {
  for (const auto& key : keys) {
    const Json* found = find_path(config, key);
    if (found == nullptr || found->is_null() || *found == value) continue;
    problems.push_back(fmt::format("'{}' says {}, but the other settings mean {}; {}; remove it",
                                   key, found->dump(), value, entry.resolution));
  }
}

const Json* agreed_value(const RopeEntry& entry, const Json& config,
                         const std::vector<std::string>& keys, std::vector<std::string>& problems) {
  const std::string* first = nullptr;
  const Json* result = nullptr;
  for (const auto& key : keys) {
    const Json* value = find_path(config, key);
    if (value == nullptr || value->is_null()) continue;
    if (result != nullptr && *value != *result) {
      problems.push_back(disagreement(*first, *result, key, *value, entry.resolution));
      return result;
    }
    if (result == nullptr) first = &key;
    if (result == nullptr) result = value;
  }
  return result;
}

bool is_yarn_setting(const Json& settings, const std::string& key) {
  const bool yarn =
      settings.value("rope_type", Json()) == "yarn" || settings.value("type", Json()) == "yarn";
  return yarn && std::ranges::find(kYarnSettings, key) != kYarnSettings.end();
}

Rope read_rope(const RopeEntry& entry, const Json& config, std::vector<std::string>& problems) {
  Rope rope;
  check_containers(entry, config, problems);
  rope.theta = number_of(entry, config, entry.theta, entry.default_theta, problems);
  check_echoes(entry, config, entry.theta_echo, rope.theta, problems);
  rope.type = entry.default_type;
  rope.turning = entry.default_turning;
  // It stands for a whole object of settings that is absent; in one that is there it is the plain
  // type.
  const auto is_there = [&](const std::string& key) {
    const std::string container = container_of(entry, key);
    return !container.empty() && has_entries(config, container);
  };
  if (rope.type == "proportional" && std::ranges::any_of(entry.theta, is_there)) {
    rope.type = "default";
  }
  if (const Json* type = agreed_value(entry, config, entry.type, problems)) {
    rope.type = type->is_string() ? type->get<std::string>() : type->dump();
    rope.turning = 1;
    if (rope.type == "none" || rope.type == entry.plain_type) rope.type = "default";
  }
  // Where a factor needs no type, a type needs no factor, and 0 stands for none.
  if (entry.default_type == "linear" && rope.type == "linear" &&
      number_of(entry, config, entry.factor, 0, problems) == 0) {
    rope.type = "default";
  }
  if (rope.type == "default") return rope;
  if (rope.type == "proportional" && !entry.turning.empty()) {
    rope.factor = number_of(entry, config, entry.factor, 1, problems);
    rope.turning = number_of(entry, config, entry.turning, rope.turning, problems);
    if (!(rope.factor > 0 && rope.turning > 0 && rope.turning <= 1)) {
      problems.push_back(
          "rotary positions of type 'proportional' need a positive factor and a part of the pairs "
          "that turns, at most all");
      rope.type = "default";
    }
    return rope;
  }
  const bool knows_yarn = !entry.original_positions.empty();
  if (rope.type != "linear" && rope.type != "llama3" && (rope.type != "yarn" || !knows_yarn)) {
    problems.push_back(
        fmt::format("rotary positions of type '{}' are not supported; known are default, linear"
                    "{}, whose frequencies do not depend on the length of the input",
                    rope.type, knows_yarn ? ", llama3 and yarn" : " and llama3"));
    rope.type = "default";
    return rope;
  }
  const auto setting = [&](const std::vector<std::string>& keys, const char* name) {
    const double value = number_of(entry, config, keys, 0, problems);
    if (!(value > 0)) {
      problems.push_back(
          fmt::format("rotary positions of type '{}' need a positive '{}'", rope.type, name));
      return 1.0;
    }
    return value;
  };
  rope.factor = setting(entry.factor, "factor");
  if (rope.type == "llama3") {
    rope.low_freq_factor = setting(entry.low_freq_factor, "low_freq_factor");
    rope.high_freq_factor = setting(entry.high_freq_factor, "high_freq_factor");
    rope.original_positions = setting(entry.original_positions, "original_max_position_embeddings");
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      problems.push_back("'high_freq_factor' must be larger than 'low_freq_factor'");
    }
  }
  if (rope.type == "yarn") {
    rope.original_positions = setting(entry.original_positions, "original_max_position_embeddings");
    read_yarn(entry, config, rope, problems);
  }
  return rope;
}

std::optional<Rope> fit_rope(const std::vector<double>& frequencies) {
  Rope rope;
  if (frequencies.empty()) return rope;
  const auto dims = static_cast<std::int64_t>(2 * frequencies.size());
  const double pairs = static_cast<double>(frequencies.size());
  auto turning = static_cast<std::size_t>(std::find(frequencies.begin(), frequencies.end(), 0) -
                                          frequencies.begin());
  if (turning == 0) return std::nullopt;
  if (frequencies[0] != 1) {
    rope.type = "linear";
    rope.factor = plain(1 / frequencies[0]);
  }
  if (turning < frequencies.size()) {
    rope.type = "proportional";
    rope.turning = static_cast<double>(turning) / pairs;
  }
  if (turning > 1) {
    // The last frequency pins theta best.
    const double last = frequencies[turning - 1] / frequencies.front();
    rope.theta = plain(std::pow(last, -pairs / static_cast<double>(turning - 1)));
  }
  const std::vector<double> again = scaled_frequencies(rope, dims);
  for (std::size_t b = 0; b < again.size(); ++b) {
    if (!(std::abs(again[b] - frequencies[b]) <= 1e-12 * frequencies[b])) return std::nullopt;
  }
  return rope;
}

Rope unscaled_rope(const std::vector<double>& frequencies) {
  Rope rope;
  if (frequencies.size() > 1) {
    rope.theta = plain(std::pow(frequencies[1], -static_cast<double>(frequencies.size())));
  }
  return rope;
}

void write_rope(const RopeEntry& entry, const Rope& rope, Json& config) {
  if (!entry.theta.empty()) put(entry, config, entry.theta, rope.theta);
  for (const auto& key : entry.theta_echo) {
    if (find_path(config, key) != nullptr) set_path(config, key, rope.theta);
  }
  const bool untyped = entry.default_type == "linear";
  const Json* said = first_of(config, entry.type);
  if (said != nullptr && *said == entry.plain_type && rope.type == "default") return;
  if (said != nullptr || rope.type != "default" ||
      (untyped && first_of(config, entry.factor) != nullptr)) {
    put(entry, config, entry.type, untyped && rope.type == "default" ? "none" : rope.type);
  }
  const bool proportional = rope.type == "proportional";
  if (rope.type == "linear" || (proportional && rope.factor != 1)) {
    put(entry, config, entry.factor, rope.factor);
  }
  if (proportional) put(entry, config, entry.turning, rope.turning);
}

}  // namespace regauge
