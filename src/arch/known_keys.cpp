#include "known_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "embedded.h"
#include "regauge/base/error.h"
#include "rope.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

// A step of a path, escaped as in a JSON pointer, so that no two keys have one path.
std::string as_step(const std::string& key) {
  std::string step;
  for (const char c : key) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

class Sorter {
 public:
  Sorter(const Family& family, const Term& term) : family_(family), term_(term) {
    for (auto& path : keys_read(family)) read_.insert(std::move(path));
    const auto add = [&](const std::vector<KeyRule>& rules) {
      for (const auto& rule : rules) rules_.push_back(&rule);
    };
    add(family.harmless);
    add(known_keys(family.format).harmless);
    under_ = family.under;
    for (const Family& other : family.beside) {
      add(other.harmless);
      under_.insert(under_.end(), other.under.begin(), other.under.end());
    }
  }

  void sort(const Json& object, const std::string& prefix) {
    for (const auto& [key, value] : object.items()) {
      const std::string path = prefix + as_step(key);
      if (read_.contains(path) || is_apart_key(family_, path) || is_harmless(path, value)) continue;
      if (!prefix.empty() && is_yarn_setting(object, key)) continue;
      if (value.is_object() && has_known_part(path + "/")) {
        sort(value, path + "/");
        continue;
      }
      rest_[path] = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    }
  }

  std::map<std::string, std::string> take() { return std::move(rest_); }

 private:
  // What is harmless in every family is so in an object that stands for a config, too.
  bool fits_anywhere(const std::string& pattern, const std::string& path) const {
    return fits(pattern, path) || std::ranges::any_of(under_, [&](const auto& object) {
             return path.starts_with(object + "/") && fits(pattern, path.substr(object.size() + 1));
           });
  }

  bool is_harmless(const std::string& path, const Json& value) const {
    return std::any_of(rules_.begin(), rules_.end(), [&](const KeyRule* rule) {
      if (!fits_anywhere(rule->pattern, path)) return false;
      if (!rule->values) return true;
      const auto allowed = [&](const Json& item) {
        return std::any_of(rule->values->begin(), rule->values->end(),
                           [&](const Json& known) { return term_(known) == item; });
      };
      if (value.is_array() && !value.empty())
        return std::all_of(value.begin(), value.end(), allowed);
      return allowed(value);
    });
  }

  bool has_known_part(const std::string& prefix) const {
    const auto next = read_.lower_bound(prefix);
    if (next != read_.end() && next->starts_with(prefix)) return true;
    return std::any_of(rules_.begin(), rules_.end(),
                       [&](const KeyRule* rule) { return rule->pattern.starts_with(prefix); });
  }

  const Family& family_;
  const Term& term_;
  std::set<std::string> read_;
  std::vector<std::string> under_;
  std::vector<const KeyRule*> rules_;
  std::map<std::string, std::string> rest_;
};

}  // namespace

decltype(Family::match) parse_match(const std::string& where, decltype(Family::match) match) {
  for (const auto& [key, value] : match) {
    const bool above = value.is_object() && value.size() == 1 && value.contains("above");
    if (!value.is_object() || (above && value.at("above").is_number())) continue;
    throw UsageError(fmt::format(
        "[arch] {}: match '{}' must be a value, or {{\"above\": a number}}", where, key));
  }
  return match;
}

std::vector<KeyRule> parse_key_rules(const std::string& where,
                                     const std::vector<std::pair<std::string, Json>>& entries) {
  std::vector<KeyRule> rules;
  for (const auto& [pattern, values] : entries) {
    KeyRule rule{pattern, std::nullopt};
    if (values.is_array()) {
      rule.values = values.get<std::vector<Json>>();
    } else if (values != true) {
      throw UsageError(fmt::format(
          "[architectures] {}: harmless '{}' must be true or a list of values", where, pattern));
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::map<std::string, KnownKeys> parse_known_keys(std::string_view file, std::string_view text) {
  const auto fail = [&](const std::string& problem) {
    throw UsageError(fmt::format("[architectures] {}: {}", file, problem));
  };
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) fail("is not a JSON object");
  std::map<std::string, KnownKeys> result;
  for (const auto& [format, sections] : json.items()) {
    KnownKeys& known = result[format];
    if (!sections.is_object()) fail(fmt::format("'{}' must be an object", format));
    for (const auto& [name, entries] : sections.items()) {
      if (!entries.is_object() || (name != "harmless" && name != "refused")) {
        fail(fmt::format("'{}' may hold the objects 'harmless' and 'refused' only", format));
      }
      std::vector<std::pair<std::string, Json>> pairs;
      for (const auto& [key, value] : entries.items()) pairs.emplace_back(key, Json(value));
      if (name == "harmless") {
        known.harmless = parse_key_rules(std::string(file), pairs);
        continue;
      }
      for (const auto& [key, why] : pairs) {
        if (!why.is_string()) fail(fmt::format("refused '{}' must say why", key));
        known.refused.emplace_back(key, why.get<std::string>());
      }
    }
  }
  return result;
}

const KnownKeys& known_keys(Format format) {
  static const std::map<std::string, KnownKeys> known =
      parse_known_keys(embedded_harmless_keys().name, embedded_harmless_keys().text);
  static const KnownKeys none;
  const auto found = known.find(std::string(format_name(format)));
  return found == known.end() ? none : found->second;
}

std::vector<std::string> keys_read(const Family& family) {
  std::vector<std::string> paths = family.keys_of_other_kinds;
  const auto add = [&](const std::vector<std::string>& keys) {
    paths.insert(paths.end(), keys.begin(), keys.end());
  };
  for (const auto& [key, value] : family.match) paths.push_back(key);
  for (const auto& [key, allowed] : family.requirements) paths.push_back(key);
  for (const auto* entries : {&family.fields, &family.variables}) {
    for (const auto& [name, entry] : *entries) {
      add(entry.keys);
      if (!entry.count_of.empty()) paths.push_back(entry.count_of);
    }
  }
  if (family.rope) {
    const RopeEntry& rope = *family.rope;
    for (const auto* keys : {&rope.theta, &rope.theta_echo, &rope.fraction, &rope.fraction_echo,
                             &rope.dims, &rope.type, &rope.factor, &rope.low_freq_factor,
                             &rope.high_freq_factor, &rope.original_positions, &rope.beta_fast,
                             &rope.beta_slow, &rope.log_multiplier, &rope.turning}) {
      add(*keys);
    }
  }
  for (const auto& [which, whose] : family.stand_ins) paths.push_back(which);
  for (const Family& other : family.beside) {
    for (auto& path : keys_read(other)) paths.push_back(std::move(path));
  }
  return paths;
}

std::map<std::string, std::string> keys_not_understood(const Family& family, const Json& config,
                                                       const Term& term) {
  if (!config.is_object()) return {};
  Sorter sorter(family, term);
  sorter.sort(config, "");
  return sorter.take();
}

}  // namespace regauge
