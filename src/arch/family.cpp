#include "family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "config_path.h"
#include "family_under.h"
#include "known_keys.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;
using Find = std::function<std::optional<std::string_view>(std::string_view)>;

// An object of a data file whose every key must be asked for.
class Section {
 public:
  Section(std::string where, const Ordered& json) : where_(std::move(where)), json_(json) {
    if (!json.is_object()) fail("expected an object");
  }

  const Ordered* find(const std::string& key) {
    known_.insert(key);
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  std::string text(const std::string& key, bool required = false) {
    const Ordered* value = find(key);
    if (value == nullptr && !required) return "";
    if (value == nullptr || !value->is_string()) fail(fmt::format("'{}' must be a string", key));
    return value->get<std::string>();
  }
  // A string or a list of strings.
  std::vector<std::string> texts(const std::string& key) {
    const Ordered* value = find(key);
    if (value == nullptr) return {};
    if (value->is_string()) return {value->get<std::string>()};
    std::vector<std::string> result;
    if (!value->is_array()) fail(fmt::format("'{}' must be a string or a list of strings", key));
    for (const auto& item : *value) {
      if (!item.is_string()) fail(fmt::format("'{}' must hold strings only", key));
      result.push_back(item.get<std::string>());
    }
    return result;
  }
  double number(const std::string& key, double fallback) {
    const Ordered* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_number()) fail(fmt::format("'{}' must be a number", key));
    return value->get<double>();
  }
  bool flag(const std::string& key) {
    const Ordered* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) fail(fmt::format("'{}' must be true or false", key));
    return value->get<bool>();
  }
  std::optional<Json> any(const std::string& key) {
    const Ordered* value = find(key);
    return value == nullptr ? std::nullopt : std::optional<Json>(*value);
  }
  std::vector<std::pair<std::string, Json>> pairs(const std::string& key) {
    std::vector<std::pair<std::string, Json>> result;
    const Ordered* value = find(key);
    if (value == nullptr) return result;
    if (!value->is_object()) fail(fmt::format("'{}' must be an object", key));
    for (const auto& [name, item] : value->items()) result.emplace_back(name, Json(item));
    return result;
  }
  // An object of conditions, or a list of them.
  When when() {
    When result;
    const Ordered* value = find("when");
    if (value == nullptr) return result;
    const auto add = [&](const Ordered& conditions) {
      if (!conditions.is_object()) fail("'when' must be an object or a list of objects");
      auto& all = result.any.emplace_back();
      for (const auto& [name, item] : conditions.items()) all.emplace_back(name, Json(item));
    };
    if (!value->is_array()) {
      add(*value);
    } else {
      for (const auto& conditions : *value) add(conditions);
    }
    return result;
  }
  // Throws when the object has a key that was never asked for.
  void finish() const {
    for (const auto& [key, value] : json_.items()) {
      if (!known_.contains(key)) {
        fail(fmt::format("unknown key '{}'; known are {}", key, fmt::join(known_, ", ")));
      }
    }
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw UsageError(fmt::format("[architectures] {}: {}", where_, problem));
  }

 private:
  std::string where_;
  const Ordered& json_;
  std::set<std::string> known_;
};

ConfigEntry parse_entry(const std::string& where, const Ordered& json) {
  Section section(where, json);
  ConfigEntry entry;
  entry.keys = section.texts("key");
  entry.parts = section.texts("parts");
  entry.constant = section.any("is");
  entry.fallback = section.any("default");
  entry.write = section.any("write");
  entry.count_of = section.text("count_of");
  entry.rows_of = section.text("rows_of");
  entry.present_tensor = section.texts("present_tensor");
  entry.absent_tensor = section.text("absent_tensor");
  entry.columns_of = section.texts("columns_of");
  entry.when = section.when();
  entry.resolution = section.text("resolution");
  if (const Ordered* values = section.find("values")) {
    for (const auto& row : *values) {
      if (!row.is_array() || row.size() != 2) {
        section.fail("'values' must hold pairs [config value, field value]");
      }
      entry.values.emplace_back(Json(row[0]), Json(row[1]));
    }
  }
  section.finish();
  const int sources =
      static_cast<int>(!entry.keys.empty() || !entry.absent_tensor.empty()) +
      static_cast<int>(entry.constant.has_value()) + static_cast<int>(!entry.count_of.empty()) +
      static_cast<int>(!entry.present_tensor.empty()) + static_cast<int>(!entry.columns_of.empty());
  if (sources != 1) {
    section.fail(
        "needs exactly one of 'key', 'is', 'count_of', 'present_tensor', 'absent_tensor', "
        "'columns_of'");
  }
  if (!entry.parts.empty() && entry.parts.size() != entry.keys.size()) {
    section.fail("'parts' must name what each 'key' is in an object of the list");
  }
  return entry;
}

RopeEntry parse_rope(const std::string& where, const Ordered& json) {
  Section section(where, json);
  RopeEntry rope;
  rope.theta = section.texts("theta");
  rope.fraction = section.texts("fraction");
  rope.dims = section.texts("dims");
  rope.type = section.texts("type");
  rope.factor = section.texts("factor");
  rope.low_freq_factor = section.texts("low_freq_factor");
  rope.high_freq_factor = section.texts("high_freq_factor");
  rope.original_positions = section.texts("original_positions");
  rope.beta_fast = section.texts("beta_fast");
  rope.beta_slow = section.texts("beta_slow");
  rope.log_multiplier = section.texts("log_multiplier");
  rope.turning = section.texts("turning");
  rope.default_turning = section.number("default_turning", 1);
  rope.default_theta = section.number("default_theta", 10000);
  rope.default_fraction = section.number("default_fraction", 1);
  rope.theta_echo = section.texts("theta_echo");
  rope.fraction_echo = section.texts("fraction_echo");
  if (const auto type = section.text("default_type"); !type.empty()) rope.default_type = type;
  rope.resolution = section.text("resolution");
  rope.divisors = section.text("divisors");
  rope.frequencies = section.texts("frequencies");
  rope.scales_logits = section.flag("scales_logits");
  rope.plain_type = section.text("plain_type");
  section.finish();
  return rope;
}

Orientation parse_orientation(const Section& section, const std::string& text) {
  if (text == "out_in") return Orientation::out_in;
  if (text == "in_out") return Orientation::in_out;
  section.fail(fmt::format("orientation '{}' is neither out_in nor in_out", text));
}

TensorEntry parse_tensor(const std::string& where, const std::string& name, const Ordered& json) {
  TensorEntry entry;
  entry.names = {name};
  if (json.is_string()) {
    entry.holds = {json.get<std::string>()};
    return entry;
  }
  Section section(where, json);
  entry.holds = section.texts("holds");
  for (auto& other : section.texts("also")) entry.names.push_back(std::move(other));
  entry.groups = section.text("groups");
  entry.stacked = section.flag("stacked");
  entry.matrices = section.text("matrices");
  entry.minus_exp = section.flag("minus_exp");
  entry.alternative = section.flag("alternative");
  if (const Ordered* shape = section.find("shape")) {
    for (const auto& size : *shape) entry.shape.emplace_back(size);
  }
  if (const auto row = section.any("first_row")) entry.first_row = *row;
  if (const Ordered* rows = section.find("rows")) {
    for (const auto& number : *rows) entry.rows.emplace_back(number);
  }
  entry.when = section.when();
  if (const auto text = section.text("orientation"); !text.empty()) {
    entry.either_way = text == "either";
    if (!entry.either_way) entry.orientation = parse_orientation(section, text);
  }
  if (section.find("gain_offset") != nullptr) entry.gain_offset = section.number("gain_offset", 0);
  section.finish();
  if (entry.holds.empty()) section.fail("'holds' names no parameter");
  if (!entry.first_row.is_null() &&
      (entry.holds.size() != 1 || entry.holds.front().ends_with(".weight"))) {
    section.fail("'first_row' is for a table alone in its tensor");
  }
  if (!entry.rows.empty() && (entry.rows.size() != 2 || entry.holds.size() != 1)) {
    section.fail("'rows' are two numbers, of one parameter");
  }
  if (entry.either_way && (!entry.stacked || entry.shape.size() != 3)) {
    section.fail("orientation 'either' is for stacked experts whose 'shape' has three sizes");
  }
  if (!entry.matrices.empty() &&
      (entry.holds.size() != 1 || entry.stacked || entry.orientation != Orientation::in_out)) {
    section.fail("'matrices' are of one parameter, in_out and not stacked");
  }
  return entry;
}

Ordered load(std::string_view file, std::string_view text, const Find& find, int depth);

// With what it inherits, and so the model beside.
Ordered with_parents(std::string_view file, Ordered json, const Find& find, int depth) {
  const auto fail = [&](const std::string& problem) {
    throw UsageError(fmt::format("[architectures] {}: {}", file, problem));
  };
  if (!json.is_object()) fail("is not a JSON object");
  if (json.contains("beside")) {
    json["beside"] = with_parents(file, json["beside"], find, depth + 1);
  }
  const auto found = json.find("inherits");
  if (found == json.end()) return json;
  const std::string parent = found->is_string() ? found->get<std::string>() : "";
  const auto parent_text = find(parent);
  if (!parent_text || depth > 8) fail(fmt::format("cannot inherit from '{}'", parent));
  json.erase("inherits");
  Ordered inherited = load(parent, *parent_text, find, depth + 1);
  if (json.contains("under")) {
    inherited =
        under_objects(std::move(inherited), Section(std::string(file), json).texts("under"));
  }
  return merged(std::move(inherited), json);
}

Ordered load(std::string_view file, std::string_view text, const Find& find, int depth) {
  return with_parents(file, Ordered::parse(text, nullptr, false), find, depth);
}

}  // namespace

bool fits(std::string_view pattern, std::string_view name) {
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

std::optional<Format> format_named(std::string_view name) {
  for (const Format format : {Format::safetensors, Format::gguf, Format::llama2c}) {
    if (format_name(format) == name) return format;
  }
  return std::nullopt;
}

namespace {

Family parse_loaded(std::string_view file, Ordered json);

// "=a + b" without its sign; empty where there is none.
std::string formula(Section& section, const std::string& key) {
  const std::string text = section.text(key);
  if (!text.empty() && !text.starts_with('=')) section.fail(fmt::format("'{}' is no formula", key));
  return text.empty() ? text : text.substr(1);
}

// `json`: the family without its kinds, each of which changes some entries of it.
void parse_kinds(const Ordered& json, const Ordered& layers, Family& family) {
  Section section(family.file + ": kinds", layers);
  PatternEntry& pattern = family.pattern;
  pattern.key = section.text("key");
  pattern.further = section.text("further");
  pattern.by_layer = section.text("by_layer");
  pattern.lists = section.texts("lists");
  if (const auto item = section.any("ends_with")) pattern.ends_with = *item;
  using Rule = PatternEntry::Rule;
  for (const auto& [word, rule, named] :
       {std::tuple{"period", Rule::period, "last"}, std::tuple{"every", Rule::every, "first"},
        std::tuple{"first", Rule::first, "item"}}) {
    const Ordered* said = section.find(word);
    if (said == nullptr) continue;
    if (pattern.rule != Rule::none) section.fail("has two of 'period', 'every' and 'first'");
    pattern.rule = rule;
    Section entry(fmt::format("{}: {} of the kinds", family.file, word), *said);
    pattern.number_key = entry.text("key");
    pattern.number = static_cast<std::int64_t>(entry.number("default", -1));
    for (auto [name, item] : {std::pair{named, &pattern.item}, {"others", &pattern.others}}) {
      const Ordered* value = entry.find(name);
      if (value == nullptr || pattern.number < (rule == Rule::first ? 0 : 1)) {
        entry.fail(fmt::format("needs 'default', '{}' and 'others'", named));
      }
      *item = Json(*value);
    }
    entry.finish();
  }
  if (const Ordered* runs = section.find("runs")) {
    for (const auto& given : *runs) {
      Section run(family.file + ": runs of the kinds", given);
      const Ordered* items = run.find("items");
      if (items == nullptr || !items->is_array()) run.fail("needs a list of 'items'");
      pattern.runs.push_back({{}, formula(run, "times")});
      for (const auto& item : *items) pattern.runs.back().items.emplace_back(Json(item));
      run.finish();
    }
  }
  if (const Ordered* except = section.find("except")) {
    Section entry(family.file + ": except of the kinds", *except);
    pattern.except_key = entry.text("key", true);
    const auto item = entry.any("item");
    if (!item || pattern.rule == Rule::none) {
      entry.fail("needs an 'item', and a 'period', an 'every' or a 'first' beside it");
    }
    pattern.except_item = *item;
    entry.finish();
  }
  if (const Ordered* last = section.find("last")) {
    Section entry(family.file + ": last of the kinds", *last);
    pattern.last_key = entry.text("key", true);
    const Ordered* items = entry.find("items");
    if (items == nullptr || !items->is_array() || pattern.key.empty()) {
      entry.fail("needs a list of 'items', and a 'key' beside it");
    }
    for (const auto& pair : *items) {
      if (!pair.is_array() || pair.size() != 2) entry.fail("'items' are pairs");
      pattern.last_items.emplace_back(Json(pair[0]), Json(pair[1]));
    }
    entry.finish();
  }
  const Ordered* of = section.find("of");
  const bool told = !pattern.key.empty() || pattern.rule != Rule::none || !pattern.runs.empty();
  if (of == nullptr || !of->is_array() || !told) {
    section.fail(
        "needs a list 'of' kinds, and a 'key', a 'period', an 'every', a 'first' or 'runs'");
  }
  section.finish();
  std::vector<std::pair<Json, Ordered>> known;  // by their items
  for (const auto& entry : *of) {
    Ordered own = entry;
    if (!own.is_object() || !own.contains("item")) section.fail("every kind needs its 'item'");
    own.erase("item");
    FamilyKind kind{Json(entry.at("item")), {}, {}};
    if (const auto like = own.find("like"); like != own.end()) {
      const auto other = std::ranges::find(known, Json(*like), &std::pair<Json, Ordered>::first);
      if (other == known.end()) section.fail("a kind is 'like' one that does not stand before it");
      own.erase("like");
      own = merged(other->second, own);
    }
    known.emplace_back(kind.item, own);
    if (const auto names = own.find("own"); names != own.end()) {
      for (const auto& [name, of_kind] : names->items()) {
        if (!of_kind.is_string() || pattern.by_layer.empty()) {
          section.fail("a kind's 'own' maps names to names, beside 'by_layer'");
        }
        kind.own.emplace_back(name, of_kind.get<std::string>());
      }
      own.erase("own");
    }
    kind.family = parse_loaded(family.file, merged(json, own));
    family.kinds.push_back(std::move(kind));
  }
  std::vector<std::string> keys;
  for (const auto& key :
       {pattern.key, pattern.number_key, pattern.except_key, pattern.by_layer, pattern.last_key}) {
    if (!key.empty()) keys.push_back(key);
  }
  for (const auto& kind : family.kinds) {
    for (auto& key : keys_read(kind.family)) keys.push_back(std::move(key));
  }
  for (auto& kind : family.kinds) kind.family.keys_of_other_kinds = keys;
}

Family parse_loaded(std::string_view file, Ordered json) {
  const Ordered layers = json.contains("kinds") ? json.at("kinds") : Ordered();
  json.erase("kinds");
  Ordered beside = json.contains("beside") ? json.at("beside") : Ordered();
  json.erase("beside");
  Family family;
  family.file = file;
  Section section(family.file, json);
  family.name = section.text("family", true);
  const std::string format = section.text("format", true);
  if (!format_named(format)) section.fail(fmt::format("unknown format '{}'", format));
  family.format = *format_named(format);
  section.text("spelled");
  section.text("class");
  family.match = parse_match(family.file, section.pairs("match"));
  for (const auto& [key, allowed] : section.pairs("requires")) {
    if (!allowed.is_array()) section.fail(fmt::format("requires '{}' must be a list", key));
    family.requirements.emplace_back(key, allowed.get<std::vector<Json>>());
  }
  family.harmless = parse_key_rules(family.file, section.pairs("harmless"));
  family.dead = section.texts("dead");
  family.under = section.texts("under");
  if (const Ordered* apart = section.find("apart")) {
    Section others(fmt::format("{}: apart", file), *apart);
    family.apart_tensors = others.texts("tensors");
    family.apart_keys = others.texts("keys");
    family.apart_layers = others.text("layers");
    others.finish();
  }
  const Ordered* fields = section.find("fields");
  const Ordered* tensors = section.find("tensors");
  if (fields == nullptr || tensors == nullptr) section.fail("needs 'fields' and 'tensors'");
  family.canonical = *fields == "canonical" && *tensors == "canonical";
  const auto entries = [&](const Ordered& map, const char* what) {
    if (!map.is_object()) section.fail(fmt::format("'{}' must be an object", what));
    std::vector<std::pair<std::string, ConfigEntry>> result;
    for (const auto& [name, entry] : map.items()) {
      result.emplace_back(name, parse_entry(fmt::format("{}: {} '{}'", file, what, name), entry));
    }
    return result;
  };
  if (!family.canonical) {
    family.fields = entries(*fields, "fields");
    for (const auto& [name, entry] : tensors->items()) {
      family.tensors.push_back(
          parse_tensor(fmt::format("{}: tensor '{}'", file, name), name, entry));
    }
  }
  if (const Ordered* variables = section.find("variables")) {
    family.variables = entries(*variables, "variables");
  }
  if (const Ordered* rope = section.find("rope")) {
    family.rope = parse_rope(fmt::format("{}: rope", file), *rope);
    family.rope->under = family.under;
  }
  family.prefixes = section.texts("prefixes");
  if (family.prefixes.empty()) family.prefixes = {""};
  if (const std::string pairs = section.text("pairs"); !pairs.empty()) {
    if (pairs != "halves" && pairs != "adjacent") {
      section.fail(fmt::format("pairs '{}' is neither halves nor adjacent", pairs));
    }
    family.half_pairs = pairs == "halves";
  }
  if (const std::string order = section.text("value_heads"); !order.empty()) {
    if (order != "tiled" && order != "grouped") {
      section.fail(fmt::format("value_heads '{}' is neither tiled nor grouped", order));
    }
    family.tiled_value_heads = order == "tiled";
  }
  if (const std::string linear = section.text("linear"); !linear.empty()) {
    family.linear = parse_orientation(section, linear);
  }
  family.gain_offset = section.number("gain_offset", 0);
  family.number = formula(section, "number");
  for (const auto& [whose, which] : section.pairs("stand_ins")) {
    if (!which.is_string()) section.fail(fmt::format("stand_ins '{}' must be a string", whose));
    family.stand_ins.emplace_back(which.get<std::string>(), whose);
  }
  section.finish();
  if (!layers.is_null()) parse_kinds(json, layers, family);
  if (!beside.is_null()) {
    for (const char* key : {"family", "format"}) beside[key] = json.at(key);
    beside["match"] = Ordered::object();
    family.beside.push_back(parse_loaded(file, std::move(beside)));
    if (family.canonical || !family.beside.front().beside.empty()) {
      section.fail("'beside' is for one model beside another");
    }
  }
  return family;
}

}  // namespace

Family parse_family(std::string_view file, std::string_view text, const Find& find) {
  return parse_loaded(file, with_name(load(file, text, find, 0)));
}

}  // namespace regauge
