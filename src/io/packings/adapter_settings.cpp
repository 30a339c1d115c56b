#include "adapter_settings.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <regex>
#include <set>
#include <string_view>

#include "regauge/base/error.h"

namespace regauge::io {
namespace {

using nlohmann::json;

constexpr const char* kMerge =
    "merge it into its base with PEFT's merge_and_unload and name the merged model";

// Keys that are read, and keys that say nothing of the sum: where a pair of factors belongs is said
// by its name.
constexpr std::array<std::string_view, 32> kKnown = {"alpha_pattern",
                                                     "auto_mapping",
                                                     "base_model_name_or_path",
                                                     "bias",
                                                     "corda_config",
                                                     "ensure_weight_tying",
                                                     "eva_config",
                                                     "exclude_modules",
                                                     "fan_in_fan_out",
                                                     "inference_mode",
                                                     "init_lora_weights",
                                                     "layers_pattern",
                                                     "layers_to_transform",
                                                     "loftq_config",
                                                     "lora_alpha",
                                                     "lora_bias",
                                                     "lora_dropout",
                                                     "lora_ga_config",
                                                     "megatron_core",
                                                     "modules_to_save",
                                                     "peft_type",
                                                     "peft_version",
                                                     "qalora_group_size",
                                                     "r",
                                                     "rank_pattern",
                                                     "revision",
                                                     "runtime_config",
                                                     "target_modules",
                                                     "target_parameters",
                                                     "task_type",
                                                     "use_dora",
                                                     "use_rslora"};

bool says_nothing(const json& value) {
  return value.is_null() || value == false || value.empty() ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

[[noreturn]] void refuse_method(const std::string& what) {
  throw UsageError(fmt::format("[adapter] {}; {}", what, kMerge));
}

double required_number(const json& settings, const char* key) {
  const auto found = settings.find(key);
  if (found == settings.end() || !found->is_number()) {
    throw UsageError(fmt::format("[adapter] '{}' of the config is {}; expected a number", key,
                                 found == settings.end() ? "missing" : found->dump()));
  }
  return found->get<double>();
}

// Python's patterns, of which those that people write mean the same here; none that a matcher that
// tries everything would take long for.
bool is_simple(const std::string& pattern) {
  constexpr std::size_t kLongestPattern = 200;
  constexpr auto kMostRepeated = 4;
  const auto repeats = [](char c) { return c == '*' || c == '+' || c == '{' || c == '?'; };
  for (std::size_t i = 1; i < pattern.size(); ++i) {
    if (repeats(pattern[i]) && (pattern[i - 1] == ')' || repeats(pattern[i - 1]))) return false;
  }
  return pattern.size() <= kLongestPattern &&
         std::count_if(pattern.begin(), pattern.end(), repeats) <= kMostRepeated;
}

// As PEFT does: the module's name, or what is behind one of its dots, is the pattern.
bool matches(const std::string& pattern, const std::string& module) {
  if (!is_simple(pattern))
    refuse_method(fmt::format("the pattern '{}' is not understood", pattern));
  try {
    const std::regex whole(pattern);
    if (std::regex_match(module, whole)) return true;
    if (pattern.starts_with('^')) return false;
    for (std::size_t dot = module.find('.'); dot != std::string::npos;
         dot = module.find('.', dot + 1)) {
      if (std::regex_match(module.substr(dot + 1), whole)) return true;
    }
    return false;
  } catch (const std::regex_error&) {
    refuse_method(fmt::format("the pattern '{}' is not understood", pattern));
  }
}

}  // namespace

AdapterSettings::AdapterSettings(const json& settings) {
  const json method = settings.value("peft_type", json());
  if (method != "LORA") {
    refuse_method(fmt::format("the adapter is of type {}, and only LORA is read",
                              method.is_string() ? method.get<std::string>() : method.dump()));
  }
  for (const auto& [key, value] : settings.items()) {
    const bool known = std::find(kKnown.begin(), kKnown.end(), key) != kKnown.end();
    if (known || says_nothing(value)) continue;
    refuse_method(
        fmt::format("'{}' of the adapter's config is {}, which is not read", key, value.dump()));
  }
  const json start = settings.value("init_lora_weights", json());
  if (start.is_string()) {
    // Those leave the base as it is.
    static const std::set<std::string> harmless = {"gaussian", "eva", "orthogonal", "mica"};
    if (!harmless.contains(start.get<std::string>())) {
      refuse_method(fmt::format("'init_lora_weights' is '{}', which changes the base besides",
                                start.get<std::string>()));
    }
  }
  const double rank = required_number(settings, "r");
  constexpr double kLargestRank = 1 << 24;
  if (!(rank >= 1 && rank <= kLargestRank) || rank != std::floor(rank)) {
    throw UsageError(
        fmt::format("[adapter] 'r' of the config is {}; expected a rank above 0", rank));
  }
  rank_ = static_cast<std::int64_t>(rank);
  alpha_ = required_number(settings, "lora_alpha");
  fan_in_fan_out_ = settings.value("fan_in_fan_out", json(false)) == true;
  rank_stabilised_ = settings.value("use_rslora", json(false)) == true;
  const json version = settings.value("peft_version", json());
  if (version.is_string()) {
    const auto& text = version.get_ref<const std::string&>();
    int major = 0, minor = 0;
    const char* const end = text.data() + text.size();
    const auto [dot, no_major] = std::from_chars(text.data(), end, major);
    if (no_major == std::errc() && dot != end && *dot == '.' &&
        std::from_chars(dot + 1, end, minor).ec == std::errc()) {
      constexpr int kSince = 19;
      swaps_experts_ = major > 0 || minor >= kSince;
    }
  }
  ranks_ = patterns(settings, "rank_pattern");
  alphas_ = patterns(settings, "alpha_pattern");
}

AdapterSettings::Patterns AdapterSettings::patterns(const json& settings, const char* key) {
  const json found = settings.value(key, json());
  Patterns result;
  if (says_nothing(found)) return result;
  if (!found.is_object()) {
    throw UsageError(
        fmt::format("[adapter] '{}' of the config is {}; expected a number for each "
                    "pattern",
                    key, found.dump()));
  }
  for (const auto& [pattern, value] : found.items()) {
    if (!value.is_number()) {
      throw UsageError(fmt::format("[adapter] '{}/{}' of the config is {}; expected a number", key,
                                   pattern, value.dump()));
    }
    result.emplace_back(pattern, value.get<double>());
  }
  return result;
}

double AdapterSettings::at(const Patterns& patterns, const char* key, const std::string& module,
                           double otherwise) {
  const double* found = nullptr;
  for (const auto& [pattern, value] : patterns) {
    if (!matches(pattern, module)) continue;
    if (found != nullptr && *found != value) {
      refuse_method(fmt::format("'{}' says {} and {} of '{}'", key, *found, value, module));
    }
    found = &value;
  }
  return found == nullptr ? otherwise : *found;
}

std::int64_t AdapterSettings::rank(const std::string& module) const {
  const double rank = at(ranks_, "rank_pattern", module, static_cast<double>(rank_));
  return rank >= 1 && rank < 0x1p24 ? static_cast<std::int64_t>(rank) : 0;
}

double AdapterSettings::alpha(const std::string& module) const {
  return at(alphas_, "alpha_pattern", module, alpha_);
}

double AdapterSettings::scale(const std::string& module) const {
  const auto rank = static_cast<double>(this->rank(module));
  return alpha(module) / (rank_stabilised_ ? std::sqrt(rank) : rank);
}

}  // namespace regauge::io
