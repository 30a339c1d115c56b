#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "config.h"
#include "config_kinds.h"
#include "config_path.h"
#include "config_value.h"
#include "fields.h"
#include "formula.h"
#include "known_keys.h"
#include "regauge/base/error.h"
#include "rope.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostRotaryDims = 1 << 20;
constexpr double kStill =
    1e20;  // a divisor from which on a pair stays where it is (llama.cpp: 1e30)

// Resolves fields and variables on demand, so that a data file may list them in any order.
class Reader {
 public:
  Reader(const Family& family, const Json& config, const TensorSource& tensors)
      : family_(family), config_(config), tensors_(tensors) {}

  Declared read() {
    check_refused();
    check_requirements();
    Json fields = Json::object();
    for (const auto& [name, entry] : family_.fields) fields[name] = value(name);
    if (family_.rope && value("positions") == "rotary") read_rotary(fields);
    Declared declared;
    for (const auto& [name, entry] : family_.variables) {
      declared.variables[name] = number(name);
    }
    report();
    declared.not_understood =
        keys_not_understood(family_, config_, [&](const Json& known) { return term(known); });
    declared.architecture = architecture_from_flat(fields);
    return declared;
  }

 private:
  const ConfigEntry* entry_of(const std::string& name) const {
    for (const auto* list : {&family_.fields, &family_.variables}) {
      for (const auto& [known, entry] : *list) {
        if (known == name) return &entry;
      }
    }
    return nullptr;
  }

  Json value(const std::string& name) {
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
    if (!under_way_.insert(name).second) {
      throw UsageError(
          fmt::format("[architectures] {}: '{}' depends on itself", family_.file, name));
    }
    const bool field = defaults_.contains(name);
    const ConfigEntry* entry = entry_of(name);
    if (!field && entry == nullptr) {
      throw UsageError(fmt::format("[architectures] {}: '{}' is neither a field nor a variable",
                                   family_.file, name));
    }
    const Json like = field ? defaults_.at(name) : Json(0.0);
    Json result = entry == nullptr || !applies(*entry) ? like : resolve(name, *entry);
    if (const auto typed = coerced(result, like)) {
      result = *typed;
    } else {
      problems_.push_back(fmt::format("{} would be {}; expected {}", said(name, entry),
                                      result.dump(),
                                      like.is_number_integer() ? "a whole number"
                                      : like.is_number()       ? "a number"
                                      : like.is_boolean()      ? "true or false"
                                                               : "a string"));
      result = like;
    }
    under_way_.erase(name);
    return values_[name] = result;
  }

  double number(const std::string& name) {
    const Json found = value(name);
    if (found.is_boolean()) return found.get<bool>() ? 1 : 0;
    return found.is_number() ? found.get<double>() : 0;
  }

  bool applies(const ConfigEntry& entry) {
    return entry.when.applies([&](const std::string& name) { return value(name); });
  }

  // In a list or an object every formula gives a whole number.
  Json term(const Json& literal_or_formula) {
    if (literal_or_formula.is_structured()) {
      Json all = literal_or_formula;
      for (auto& item : all) {
        const Json value = term(item);
        item = is_formula(item) ? coerced(value, 0).value_or(value) : value;
      }
      return all;
    }
    if (!is_formula(literal_or_formula)) return literal_or_formula;
    return evaluate_formula(literal_or_formula.get_ref<const std::string&>().substr(1),
                            [&](const std::string& name) { return number(name); });
  }

  // Under any prefix; null if there is none.
  const std::vector<std::int64_t>* shape(const std::string& pattern) const {
    const auto name = name_in_file(pattern);
    return name ? tensors_.shape(*name) : nullptr;
  }
  std::optional<std::string> name_in_file(const std::string& pattern) const {
    constexpr std::string_view kPrefix = "{prefix}";
    const bool open = pattern.starts_with(kPrefix);
    for (const auto& prefix : family_.prefixes) {
      const std::string name = open ? prefix + pattern.substr(kPrefix.size()) : pattern;
      if (tensors_.shape(name) != nullptr) return name;
    }
    return std::nullopt;
  }
  bool has_tensor(const std::string& pattern) const { return shape(pattern) != nullptr; }

  Json columns(const std::vector<std::string>& names) {
    for (const auto& name : names) {
      const auto* found = shape(name);
      if (found != nullptr && !found->empty()) return found->back();
    }
    problems_.push_back(fmt::format("tensor '{}' is missing", names.front()));
    return 0;
  }

  Json resolve(const std::string& name, const ConfigEntry& entry) {
    if (entry.constant) return term(*entry.constant);
    if (!entry.present_tensor.empty()) {
      const bool there = std::ranges::any_of(
          entry.present_tensor, [&](const std::string& tensor) { return has_tensor(tensor); });
      return field_from_config(entry, there).value_or(there);
    }
    if (!entry.columns_of.empty()) return columns(entry.columns_of);
    if (!entry.absent_tensor.empty() && entry.keys.empty()) {
      return !has_tensor(entry.absent_tensor);
    }
    if (!entry.count_of.empty()) {
      const Json* counted = find_path(config_, entry.count_of);
      if (counted != nullptr && !counted->is_null()) return counted->size();
      return fallback(name, entry, entry.count_of);
    }
    return entry.parts.empty() ? keyed(name, entry) : joined(name, entry);
  }

  Json joined(const std::string& name, const ConfigEntry& entry) {
    if (const auto list = joined_parts(entry, config_)) return *list;
    problems_.push_back(
        fmt::format("expected {} in lists of one length", fmt::join(entry.keys, ", ")));
    return defaults_.at(name);
  }

  // A switch that is on where the config does not have it. Transformers takes null for off.
  bool is_on_by_default(const ConfigEntry& entry) {
    if (!entry.fallback) return false;
    const Json absent = term(*entry.fallback);
    if (entry.values.empty()) return absent == true;
    const auto off = field_from_config(entry, false);
    return off && *off != absent;
  }

  void refuse_null(const std::string& key) {
    problems_.push_back(fmt::format(
        "'{}' is null, which is neither true nor false nor absent; remove it, or say which", key));
  }

  // From the config's keys, which must agree when there are several.
  Json keyed(const std::string& name, const ConfigEntry& entry) {
    Json result;
    std::string said_by;
    for (const auto& key : entry.keys) {
      const Json* found = find_path(config_, key);
      if (found == nullptr) continue;
      const auto mapped = field_from_config(entry, as_written(*found, family_.format));
      if (found->is_null() && (!mapped || mapped->is_null())) {
        if (is_on_by_default(entry)) refuse_null(key);
        continue;
      }
      if (!mapped) {
        std::vector<std::string> known;
        for (const auto& row : entry.values) known.push_back(row.first.dump());
        problems_.push_back(
            fmt::format("'{}' is {}; known are {}", key, found->dump(), fmt::join(known, ", ")));
        return defaults_.contains(name) ? defaults_.at(name) : Json(0.0);
      }
      if (!said_by.empty() && *mapped != result) {
        problems_.push_back(fmt::format("'{}' says {} and '{}' says {}{}{}; remove the wrong one",
                                        said_by, result.dump(), key, mapped->dump(),
                                        entry.resolution.empty() ? "" : "; ", entry.resolution));
      }
      result = *mapped;
      said_by = key;
    }
    return said_by.empty() ? fallback(name, entry, entry.keys.front()) : result;
  }

  Json fallback(const std::string& name, const ConfigEntry& entry, const std::string& key) {
    if (!entry.rows_of.empty()) {
      const auto* shape = tensors_.shape(entry.rows_of);
      if (shape != nullptr && !shape->empty()) return shape->front();
    }
    if (!entry.absent_tensor.empty()) return !has_tensor(entry.absent_tensor);
    if (entry.fallback) return term(*entry.fallback);
    problems_.push_back(fmt::format("'{}' is missing", key));
    return defaults_.contains(name) ? defaults_.at(name) : Json(0.0);
  }

  // What a file holds of the frequencies themselves, which is as its program uses them.
  std::optional<std::vector<double>> stored_frequencies(const RopeEntry& entry, std::size_t count) {
    std::optional<std::vector<double>> found;
    for (const std::string& pattern : entry.frequencies) {
      const std::size_t at = pattern.find(".N.");
      const auto layers =
          at == std::string::npos ? std::int64_t{1} : static_cast<std::int64_t>(number("layers"));
      for (std::int64_t n = 0; n < layers; ++n) {
        std::string name = pattern;
        if (at != std::string::npos) name.replace(at, 3, fmt::format(".{}.", n));
        const auto full = name_in_file(name);
        if (!full) break;
        const bool fits = *tensors_.shape(*full) == std::vector{static_cast<std::int64_t>(count)};
        std::vector<double> values = fits ? tensors_.values(*full) : std::vector<double>();
        if (!fits || (found && *found != values)) {
          problems_.push_back(
              fmt::format("tensor '{}' should hold {} rotary frequencies, the same in all layers",
                          *full, count));
          return std::nullopt;
        }
        found = std::move(values);
      }
    }
    return found;
  }

  void read_rotary(Json& fields) {
    const RopeEntry& entry = *family_.rope;
    Json config = config_;
    const double width = number("qk_width");
    double dims = width * entry.default_fraction;
    if (const Json* said = agreed_value(entry, config_, entry.dims, problems_)) {
      if (!said->is_number_integer()) {
        problems_.push_back(
            fmt::format("'{}' is {}; expected a whole number", entry.dims.front(), said->dump()));
        return;
      }
      dims = said->get<double>();
    } else {
      double fraction = entry.default_fraction;
      if (const Json* part = agreed_value(entry, config_, entry.fraction, problems_)) {
        if (!part->is_number()) {
          problems_.push_back(
              fmt::format("'{}' is {}; expected a number", entry.fraction.front(), part->dump()));
          return;
        }
        fraction = part->get<double>();
      }
      check_echoes(entry, config_, entry.fraction_echo, fraction, problems_);
      dims = width * fraction;
    }
    for (const auto* keys : {&entry.theta, &entry.factor}) {
      for (const auto& key : *keys) {
        if (const Json* found = find_path(config, key)) {
          set_path(config, key, as_written(*found, family_.format));
        }
      }
    }
    const auto whole = static_cast<std::int64_t>(std::clamp(dims, 0.0, 1e9));
    const Rope rope = read_rope(entry, config, problems_);
    if (whole <= 0 || whole % 2 != 0 || whole > kMostRotaryDims ||
        static_cast<double>(whole) > width) {
      problems_.push_back(fmt::format(
          "{} of {} coordinates of a head would rotate; expected an even part", whole, width));
      return;
    }
    if (rope.attention_factor != 1 && static_cast<double>(whole) < width) {
      problems_.push_back(
          fmt::format("rotary positions of type '{}' would multiply q and k in {} of {} "
                      "coordinates, which is not supported",
                      rope.type, whole, width));
      return;
    }
    const double factor = rope.logit_factor * rope.attention_factor * rope.attention_factor;
    if (factor != 1) fields["attention_scale"] = number("attention_scale") * factor;
    const bool grid = value("grid") == true;
    std::vector<double> frequencies =
        grid ? grid_frequencies(rope, whole) : scaled_frequencies(rope, whole);
    if (!entry.divisors.empty() && tensors_.shape(entry.divisors) != nullptr) {
      const std::vector<double> divisors = tensors_.values(entry.divisors);
      if (divisors.size() != frequencies.size()) {
        problems_.push_back(fmt::format("tensor '{}' has {} elements; expected {}", entry.divisors,
                                        divisors.size(), frequencies.size()));
        return;
      }
      for (std::size_t b = 0; b < divisors.size(); ++b) {
        frequencies[b] = divisors[b] < kStill ? frequencies[b] / divisors[b] : 0;
      }
    }
    if (const auto own = stored_frequencies(entry, frequencies.size())) frequencies = *own;
    if (!std::all_of(frequencies.begin(), frequencies.end(),
                     [](double f) { return std::isfinite(f) && f >= 0; })) {
      problems_.push_back("a rotary frequency is not a finite number; is theta positive?");
      return;
    }
    fields["rotary_dims"] = whole;
    fields["rotary_frequencies"] = frequencies;
  }

  void check_refused() {
    for (const auto& [key, why] : known_keys(family_.format).refused) {
      const Json* found = find_path(config_, key);
      if (found == nullptr || found->is_null()) continue;
      problems_.push_back(
          fmt::format("'{}' is {}, which is not supported: {}", key, found->dump(), why));
    }
  }

  void check_requirements() {
    for (const auto& [key, allowed] : family_.requirements) {
      const Json* found = find_path(config_, key);
      if (found == nullptr) continue;
      if (found->is_null()) {
        const auto is_true = [](const Json& item) { return item == true; };
        if (!allowed.empty() && std::ranges::all_of(allowed, is_true)) refuse_null(key);
        continue;
      }
      const std::vector<Json> said =
          found->is_array() ? found->get<std::vector<Json>>() : std::vector<Json>{*found};
      for (const auto& item : said) {
        std::vector<std::string> known;
        bool fits = false;
        for (const auto& entry : allowed) {
          const Json meant = term(entry);
          fits = fits || meant == item;
          known.push_back(meant.dump());
        }
        if (fits) continue;
        problems_.push_back(
            fmt::format("'{}' is {}, which is not supported{}", key, found->dump(),
                        known.empty() ? "" : fmt::format("; only {}", fmt::join(known, ", "))));
        break;
      }
    }
  }

  static std::string said(const std::string& name, const ConfigEntry* entry) {
    if (entry == nullptr || entry->keys.empty()) return name;
    return fmt::format("{} ('{}')", name, entry->keys.front());
  }

  void report() const {
    if (problems_.empty()) return;
    const std::string where = fmt::format("[{}] config: ", family_.name);
    throw UsageError(where + fmt::format("{}", fmt::join(problems_, "\n" + where)));
  }

  const Family& family_;
  const Json& config_;
  const TensorSource& tensors_;
  const Json defaults_ = flat_fields(Architecture{});
  std::map<std::string, Json> values_;
  std::set<std::string> under_way_;
  std::vector<std::string> problems_;
};

}  // namespace

Declared read_config(const Family& family, const Json& config, const TensorSource& tensors) {
  if (family.canonical) {
    Json fields = config;
    for (const auto& [key, value] : family.match) fields.erase(key);
    return {architecture_from_json(fields), {}, {}};
  }
  const Json said = with_stand_ins(family, config);
  Declared declared =
      family.kinds.empty() ? read_alike(family, said, tensors) : read_kinds(family, said, tensors);
  for (const Family& other : family.beside) {
    Declared beside = read_config(other, said, tensors);
    declared.architecture.beside.push_back(std::move(beside.architecture));
    declared.variables_beside.push_back(std::move(beside.variables));
  }
  validate(declared.architecture);
  return declared;
}

Json with_stand_ins(const Family& family, const Json& config) {
  Json result = config;
  for (const auto& [which, whose] : family.stand_ins) {
    const Json* found = find_path(config, which);
    if (found != nullptr && found->is_object()) set_path(result, whose, *found);
  }
  return result;
}

Declared read_alike(const Family& family, const Json& config, const TensorSource& tensors) {
  return Reader(family, config, tensors).read();
}

std::vector<std::string> differences(const Architecture& wanted, const Architecture& found) {
  const Json a = flat_fields(wanted);
  const Json b = flat_fields(found);
  std::vector<std::string> result;
  for (const auto& [name, value] : a.items()) {
    const Json other = b.value(name, Json());
    if (value != other) {
      result.push_back(fmt::format("{}: {} / {}", name, value.dump(), other.dump()));
    }
  }
  for (const auto& [name, value] : b.items()) {
    if (!a.contains(name)) result.push_back(fmt::format("{}: null / {}", name, value.dump()));
  }
  return result;
}

}  // namespace regauge
