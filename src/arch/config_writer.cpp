#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "config.h"
#include "config_kinds.h"
#include "config_path.h"
#include "config_value.h"
#include "fields.h"
#include "formula.h"
#include "own_settings.h"
#include "regauge/base/error.h"
#include "rope.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

// A number that a formula misses by its rounding: 7 for 7.000000000000001.
Json near_whole(const Json& value) {
  if (!value.is_number()) return value;
  const double number = value.get<double>(), whole = std::round(number);
  return std::abs(number - whole) <= 1e-12 * std::abs(whole) ? Json(whole) : value;
}

class Writer {
 public:
  Writer(const Family& family, const Architecture& architecture, const Json& base)
      : family_(family),
        architecture_(architecture),
        fields_(flat_fields(architecture)),
        config_(base.is_object() ? base : Json::object()),
        fresh_(config_.empty()) {
    solve();
  }

  const Variables& variables() const { return variables_; }

  Json write() {
    for (const auto& [key, value] : family_.match) {
      if (!value.is_object()) put({key}, value);  // else a field writes it
    }
    for (const auto& [name, entry] : family_.variables) {
      if (!applies(entry)) continue;
      if (!entry.keys.empty()) put_number(entry, variables_.at(name));
      if (!entry.count_of.empty())
        put_labels(entry, Json(static_cast<std::int64_t>(variables_.at(name))));
    }
    for (const auto& [name, entry] : family_.fields) {
      if (!applies(entry)) continue;
      if (!entry.keys.empty()) put_field(entry, fields_.at(name));
      if (!entry.count_of.empty()) put_labels(entry, fields_.at(name));
    }
    if (family_.rope && attention().positions == Positions::rotary) put_rotary();
    return config_;
  }

 private:
  const Attention& attention() const { return architecture_.kinds.front().attention; }

  double number(const std::string& name) const {
    if (const auto found = variables_.find(name); found != variables_.end()) return found->second;
    if (!fields_.contains(name)) return std::nan("");
    const Json& value = fields_.at(name);
    if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
    return value.is_number() ? value.get<double>() : std::nan("");
  }

  Json term(const Json& literal_or_formula) const {
    if (!is_formula(literal_or_formula)) return literal_or_formula;
    return evaluate_formula(literal_or_formula.get_ref<const std::string&>().substr(1),
                            [&](const std::string& name) { return number(name); });
  }

  bool applies(const ConfigEntry& entry) const {
    return entry.when.applies([&](const std::string& name) { return fields_.at(name); });
  }

  // In the order of the data file: a formula may use the variables above it.
  void solve() {
    for (const auto& [name, entry] : family_.variables) {
      Json value;
      for (const auto& key : entry.keys) {
        const Json* found = find_path(config_, key);
        if (found != nullptr && found->is_number()) value = *found;
      }
      const bool said = !value.is_null();  // and kept: an image need not be whole patches
      if (entry.constant) value = term(*entry.constant);
      if (value.is_null() && entry.fallback) value = term(*entry.fallback);
      if (entry.write && !said) value = near_whole(term(*entry.write));
      variables_[name] = value.is_number() ? value.get<double>() : 0;
    }
  }

  // True when every key that the config has already gives this value; an absent key counts when its
  // default does.
  bool said_already(const ConfigEntry& entry, const Json& field) const {
    bool any = false;
    for (const auto& key : entry.keys) {
      const Json* found = find_path(config_, key);
      if (found == nullptr) continue;
      const auto mapped = field_from_config(entry, as_written(*found, family_.format));
      if (found->is_null() && (!mapped || mapped->is_null())) continue;
      if (!mapped || *mapped != field) return false;
      any = true;
    }
    if (any || (!fresh_ && !entry.rows_of.empty())) return true;
    return !fresh_ && entry.fallback && term(*entry.fallback) == field;
  }

  // Lists; of what is the same for all, as true or false are, one of them where there is no list.
  void put_parts(const ConfigEntry& entry, const Json& list) {
    const auto said = joined_parts(entry, config_);
    if (list.empty() || (said && includes(list, *said))) return;
    for (std::size_t i = 0; i < entry.keys.size(); ++i) {
      Json items = Json::array();
      for (const auto& object : list) items.push_back(object.at(entry.parts[i]));
      set_path(config_, entry.keys[i], items.front().is_boolean() ? items.front() : items);
    }
  }

  // Every object of `list` has all that its like in `said` has.
  static bool includes(const Json& list, const Json& said) {
    if (list.size() != said.size()) return false;
    for (std::size_t n = 0; n < list.size(); ++n) {
      for (const auto& [part, value] : said[n].items()) {
        if (list[n].at(part) != value) return false;
      }
    }
    return true;
  }

  void put_field(const ConfigEntry& entry, const Json& field) {
    if (!entry.parts.empty()) return put_parts(entry, field);
    if (said_already(entry, field)) return;
    if (const auto value = config_from_field(entry, field)) put(entry.keys, *value);
  }

  void put_number(const ConfigEntry& entry, double value) {
    const bool whole = value == std::floor(value) && std::abs(value) < 9e15;
    const Json number = whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
    if (said_already(entry, number)) return;
    put(entry.keys, config_from_field(entry, number).value_or(number));
  }

  // Every spelling that the config has, or the first.
  void put(const std::vector<std::string>& keys, const Json& value) {
    bool written = false;
    for (const auto& key : keys) {
      if (find_path(config_, key) == nullptr) continue;
      set_path(config_, key, value);
      written = true;
    }
    if (!written) set_path(config_, keys.front(), value);
  }

  // Keeps the names of the classes when their number is right.
  void put_labels(const ConfigEntry& entry, const Json& count) {
    const Json* found = find_path(config_, entry.count_of);
    if (found != nullptr && Json(found->size()) == count) return;
    if (found == nullptr && !fresh_ && entry.fallback && *entry.fallback == count) return;
    Json names = Json::object();
    Json indices = Json::object();
    for (std::int64_t i = 0; i < count.get<std::int64_t>(); ++i) {
      names[std::to_string(i)] = "LABEL_" + std::to_string(i);
      indices["LABEL_" + std::to_string(i)] = i;
    }
    set_path(config_, entry.count_of, names);
    if (entry.count_of == "id2label") set_path(config_, "label2id", indices);
  }

  void put_rotary() {
    const RopeEntry& entry = *family_.rope;
    const double width = static_cast<double>(attention().qk_width);
    const double dims = static_cast<double>(attention().rotary_dims);
    if (!entry.dims.empty()) {
      const bool silent = std::all_of(entry.dims.begin(), entry.dims.end(), [&](const auto& key) {
        return find_path(config_, key) == nullptr;
      });
      if (fresh_ || !silent || dims != width) put(entry.dims, attention().rotary_dims);
    } else if (!entry.fraction.empty()) {
      const auto says = [&](const std::string& key) {
        const Json* found = find_path(config_, key);
        return found != nullptr && found->is_number() &&
               std::floor(width * found->get<double>()) == dims;
      };
      if (!std::any_of(entry.fraction.begin(), entry.fraction.end(), says)) {
        put(entry.fraction, dims / width);
        for (const auto& key : entry.fraction_echo) {
          if (find_path(config_, key) != nullptr) set_path(config_, key, dims / width);
        }
      }
    }
    std::vector<std::string> problems;
    const Rope now = read_rope(entry, config_, problems);
    std::vector<double> frequencies = attention().rotary_frequencies;
    const bool grid = attention().grid;
    const bool good = problems.empty() &&
                      frequencies == (grid ? grid_frequencies(now, attention().rotary_dims)
                                           : scaled_frequencies(now, attention().rotary_dims));
    if (good && !fresh_) return;
    if (grid) {
      frequencies.resize(frequencies.size() / 2);
      for (double& frequency : frequencies) frequency /= 2 * std::numbers::pi;
    }
    const auto rope = fit_rope(frequencies);
    const bool sayable = rope && (rope->type != "proportional" || !entry.turning.empty());
    if (sayable) write_rope(entry, *rope, config_);
    if (!rope && fresh_ && !(entry.divisors.empty() && entry.frequencies.empty())) {
      write_rope(entry, unscaled_rope(attention().rotary_frequencies), config_);
    }
  }

  const Family& family_;
  const Architecture& architecture_;
  const Json fields_;
  Json config_;
  const bool fresh_;  // nothing to keep: every key is written, defaults too
  Variables variables_;
};

}  // namespace

namespace {

// Of two models side by side one after the other, and what stands for an object as the object.
Json write_both(const Family& family, const Architecture& architecture, const Json& base) {
  if (architecture.beside.empty()) {
    throw UsageError(fmt::format("[config] family '{}' has two models side by side", family.name));
  }
  Family first = family;
  first.beside.clear();
  Json config = write_config(first, architecture.alone(), with_stand_ins(family, base));
  config = write_config(family.beside.front(), architecture.beside.front(), config);
  for (const auto& [which, whose] : family.stand_ins) {
    const Json* written = find_path(config, whose);
    const Json* found = find_path(config, which);
    if (found != nullptr && found->is_object()) set_path(config, which, Json(*written));
  }
  return config;
}

}  // namespace

Variables solve_variables(const Family& family, const Architecture& architecture,
                          const Json& base) {
  const Family& one = family.kinds.empty() ? family : family.kinds.front().family;
  return Writer(one, architecture, base).variables();
}

Json write_config(const Family& family, const Architecture& architecture, const Json& base) {
  if (family.canonical) {
    Json config = to_json(architecture);
    for (const auto& [key, value] : family.match) set_path(config, key, value);
    return config;
  }
  if (!family.beside.empty()) return write_both(family, architecture, base);
  if (family.kinds.empty()) {
    return Writer(family, architecture.with_layers_like(0, architecture.layers), base).write();
  }
  // A layer that no kind can say is written as some kind says it: reading back tells.
  Json config = base;
  std::vector<Json> items;
  std::vector<const FamilyKind*> kinds;
  std::map<const FamilyKind*, Json> written;
  for (std::int64_t n = 0; n < architecture.layers; ++n) {
    const Architecture alike = architecture.with_layers_like(n, architecture.layers);
    const FamilyKind* kind = kind_for(family, alike);
    if (kind == nullptr) kind = &family.kinds.front();
    if (std::ranges::find(items, kind->item) == items.end()) {
      config = Writer(kind->family, alike, with_own_settings(family, *kind, config)).write();
      written[kind] = config;
    }
    items.push_back(kind->item);
    kinds.push_back(kind);
  }
  write_pattern(family.pattern, items, config);
  write_own_settings(family, kinds, written, base, config);
  return config;
}

}  // namespace regauge
