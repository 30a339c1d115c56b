#include "rope.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "config_path.h"
#include "regauge/arch/architecture.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

// The first value that is there and not null.
const Json* first_of(const Json& config, const std::vector<std::string>& keys) {
  for (const auto& key : keys) {
    const Json* value = find_path(config, key);
    if (value != nullptr && !value->is_null()) return value;
  }
  return nullptr;
}

double number_of(const Json& config, const std::vector<std::string>& keys, double fallback,
                 std::vector<std::string>& problems) {
  const Json* value = first_of(config, keys);
  if (value == nullptr) return fallback;
  if (!value->is_number()) {
    problems.push_back(fmt::format("'{}' is {}; expected a number", keys.front(), value->dump()));
    return fallback;
  }
  return value->get<double>();
}

double llama3_frequency(const Rope& rope, double frequency) {
  const double turns = rope.original_positions * frequency / (2 * std::numbers::pi);
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  if (turns > rope.high_freq_factor) return frequency;
  const double ramp =
      (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - ramp) * frequency / rope.factor + ramp * frequency;
}

// A decimal of few digits if there is one within 1e-9, which is what people write in configs.
double plain(double value) {
  const double rounded = std::stod(fmt::format("{:.10g}", value));
  return std::abs(rounded - value) <= 1e-9 * std::abs(value) ? rounded : value;
}

// Writes to every spelling that is there, or to the first when none is.
void put(Json& config, const std::vector<std::string>& keys, const Json& value) {
  bool written = false;
  for (const auto& key : keys) {
    if (find_path(config, key) != nullptr) {
      set_path(config, key, value);
      written = true;
    }
  }
  if (!written && !keys.empty()) set_path(config, keys.front(), value);
}

}  // namespace

std::vector<double> scaled_frequencies(const Rope& rope, std::int64_t dims) {
  std::vector<double> frequencies = rotary_frequencies(dims, rope.theta);
  for (double& frequency : frequencies) {
    if (rope.type == "linear") frequency /= rope.factor;
    if (rope.type == "llama3") frequency = llama3_frequency(rope, frequency);
  }
  return frequencies;
}

Rope read_rope(const RopeEntry& entry, const Json& config, std::vector<std::string>& problems) {
  Rope rope;
  rope.theta = number_of(config, entry.theta, entry.default_theta, problems);
  if (const Json* type = first_of(config, entry.type)) {
    rope.type = type->is_string() ? type->get<std::string>() : type->dump();
    if (rope.type == "none") rope.type = "default";
  }
  if (rope.type == "default") return rope;
  if (rope.type != "linear" && rope.type != "llama3") {
    problems.push_back(
        fmt::format("rotary positions of type '{}' are not supported; known are default, linear "
                    "and llama3, whose frequencies do not depend on the length of the input",
                    rope.type));
    rope.type = "default";
    return rope;
  }
  const auto setting = [&](const std::vector<std::string>& keys, const char* name) {
    const double value = number_of(config, keys, 0, problems);
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
  return rope;
}

std::optional<Rope> fit_rope(const std::vector<double>& frequencies) {
  Rope rope;
  if (frequencies.empty()) return rope;
  const auto dims = static_cast<std::int64_t>(2 * frequencies.size());
  if (frequencies[0] != 1) {
    rope.type = "linear";
    rope.factor = plain(1 / frequencies[0]);
  }
  if (frequencies.size() > 1) {
    // The last frequency pins theta best.
    const double last = frequencies.back() / frequencies.front();
    const double pairs = static_cast<double>(frequencies.size());
    rope.theta = plain(std::pow(last, -pairs / (pairs - 1)));
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
  if (!entry.theta.empty()) put(config, entry.theta, rope.theta);
  if (first_of(config, entry.type) != nullptr || rope.type != "default") {
    put(config, entry.type, rope.type);
  }
  if (rope.type == "linear") put(config, entry.factor, rope.factor);
}

}  // namespace regauge
