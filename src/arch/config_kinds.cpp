#include "config_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "config_path.h"
#include "config_value.h"
#include "fields.h"
#include "formula.h"
#include "own_settings.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostLayers = 1 << 20;

[[noreturn]] void refuse(const Family& family, const std::string& problem) {
  throw UsageError(fmt::format("[{}] config: {}", family.name, problem));
}

// The least number that a rule may have.
std::int64_t least_number(PatternEntry::Rule rule) {
  return rule == PatternEntry::Rule::first ? 0 : 1;
}

// The number of the rule, or nothing if the config's is none that it could follow.
std::optional<std::int64_t> number_of(const PatternEntry& pattern, const Json& config) {
  const Json* said = pattern.number_key.empty() ? nullptr : find_path(config, pattern.number_key);
  if (said == nullptr || said->is_null()) return pattern.number;
  if (!said->is_number_integer()) return std::nullopt;
  const auto number = said->get<std::int64_t>();
  const std::int64_t least = least_number(pattern.rule);
  return number >= least ? std::optional(number) : std::nullopt;
}

// As the rule gives them.
std::vector<Json> ruled(const PatternEntry& pattern, std::int64_t layers, std::int64_t number) {
  std::vector<Json> items;
  for (std::int64_t n = 0; n < layers; ++n) {
    const bool named = pattern.rule == PatternEntry::Rule::period  ? (n + 1) % number == 0
                       : pattern.rule == PatternEntry::Rule::every ? n % number == 0
                                                                   : n < number;
    items.push_back(named ? pattern.item : pattern.others);
  }
  return items;
}

// As the rule and its exceptions give them; nothing if the config's are no numbers.
std::optional<std::vector<Json>> derived(const PatternEntry& pattern, std::int64_t layers,
                                         const Json& config) {
  const auto number = number_of(pattern, config);
  if (!number) return std::nullopt;
  std::vector<Json> items = ruled(pattern, layers, *number);
  const Json* except = pattern.except_key.empty() ? nullptr : find_path(config, pattern.except_key);
  if (except == nullptr || except->is_null()) return items;
  if (!except->is_array()) return std::nullopt;
  for (const auto& layer : *except) {
    if (!layer.is_number_integer()) return std::nullopt;
    const auto n = layer.get<std::int64_t>();
    if (n >= 0 && n < layers) items[static_cast<std::size_t>(n)] = pattern.except_item;
  }
  return items;
}

// As the runs give it, whose lengths are formulas of what `alike` says of the model as a whole.
std::vector<Json> in_runs(const Family& family, const Declared& alike) {
  const Json fields = flat_fields(alike.architecture);
  const auto number = [&](const std::string& name) {
    const auto found = alike.variables.find(name);
    return found != alike.variables.end() ? found->second : fields.at(name).get<double>();
  };
  std::vector<Json> items;
  for (const auto& run : family.pattern.runs) {
    const double said = evaluate_formula(run.times, number);
    const auto times =
        said > 0 ? static_cast<std::int64_t>(std::min(said, static_cast<double>(kMostLayers))) : 0;
    for (std::int64_t i = 0; i < times; ++i) {
      items.insert(items.end(), run.items.begin(), run.items.end());
    }
  }
  return items;
}

// How many of the last layers the config says are others.
std::int64_t last_layers(const Family& family, std::int64_t layers, const Json& config) {
  const std::string& key = family.pattern.last_key;
  const Json* said = key.empty() ? nullptr : find_path(config, key);
  if (said == nullptr || said->is_null()) return 0;
  if (said->is_number_integer() && said->get<std::int64_t>() >= 0 &&
      said->get<std::int64_t>() <= layers) {
    return said->get<std::int64_t>();
  }
  refuse(family, fmt::format("'{}' is {}; expected 0 to the {} layers", key, said->dump(), layers));
}

// The item of one of the last layers for that in the list, or the other way round; nothing where
// there is none.
const Json* last_item(const PatternEntry& pattern, const Json& item, bool back) {
  for (const auto& [listed, last] : pattern.last_items) {
    if ((back ? last : listed) == item) return back ? &listed : &last;
  }
  return nullptr;
}

std::vector<Json> read_listed(const Family& family, const Declared& alike, const Json& config) {
  const PatternEntry& pattern = family.pattern;
  const std::int64_t layers = alike.architecture.layers;
  if (!pattern.runs.empty()) {
    auto items = in_runs(family, alike);
    if (static_cast<std::int64_t>(items.size()) == layers) return items;
    refuse(family, fmt::format("it asks for {} layers of an encoder and a decoder", layers));
  }
  const Json* list = pattern.key.empty() ? nullptr : find_path(config, pattern.key);
  if (list == nullptr || list->is_null()) {
    if (pattern.rule == PatternEntry::Rule::none) {
      refuse(family, fmt::format("'{}' is missing", pattern.key));
    }
    if (auto items = derived(pattern, layers, config)) return *std::move(items);
    const auto said = [&](const std::string& key) {
      const Json* value = key.empty() ? nullptr : find_path(config, key);
      return value == nullptr ? "" : fmt::format(" '{}' {}", key, value->dump());
    };
    refuse(family, fmt::format("the kinds of layers do not follow from{}{}",
                               said(pattern.number_key), said(pattern.except_key)));
  }
  const auto further = alike.variables.find(pattern.further);
  const double all =
      static_cast<double>(layers) + (further == alike.variables.end() ? 0.0 : further->second);
  if (!list->is_array() || static_cast<double>(list->size()) != all ||
      static_cast<std::int64_t>(list->size()) < layers) {
    refuse(family, fmt::format("'{}' is {}; expected a list with an item for each of the {} layers",
                               pattern.key, list->dump(), layers));
  }
  return {list->begin(), list->begin() + layers};
}

std::vector<Json> read_pattern(const Family& family, const Declared& alike, const Json& config) {
  std::vector<Json> items = read_listed(family, alike, config);
  const auto count = static_cast<std::int64_t>(items.size());
  for (std::int64_t n = count - last_layers(family, count, config); n < count; ++n) {
    Json& item = items[static_cast<std::size_t>(n)];
    const Json* last = last_item(family.pattern, item, false);
    if (last == nullptr) refuse(family, fmt::format("a last layer is {}", item.dump()));
    item = *last;
  }
  return items;
}

// What the first kind says, for what belongs to the model.
Declared read_first(const Family& family, const Json& config, const TensorSource& tensors) {
  const FamilyKind& kind = family.kinds.front();
  Declared first = read_alike(kind.family, with_own_settings(family, kind, config), tensors);
  const std::int64_t layers = first.architecture.layers;
  if (layers > kMostLayers) refuse(family, fmt::format("{} layers are too many", layers));
  if (layers < 1) validate(first.architecture);
  return first;
}

const FamilyKind& kind_of(const Family& family, const Json& item) {
  for (const auto& kind : family.kinds) {
    if (kind.item == item) return kind;
  }
  std::vector<std::string> known;
  for (const auto& kind : family.kinds) known.push_back(kind.item.dump());
  refuse(family, fmt::format("a layer is {} in '{}'; known are {}", item.dump(), family.pattern.key,
                             fmt::join(known, ", ")));
}

// Asks for the tensors of this layer where it asks whether a layer has one.
Family looking_at(Family family, std::int64_t layer) {
  const auto place = [&](std::string& tensor) {
    const std::size_t at = tensor.find(".N.");
    if (at != std::string::npos) tensor.replace(at, 3, fmt::format(".{}.", layer));
  };
  for (auto& [name, entry] : family.fields) {
    place(entry.absent_tensor);
    for (auto& tensor : entry.present_tensor) place(tensor);
  }
  return family;
}

std::vector<std::int64_t> layers_of(const std::vector<Json>& items, const Json& item) {
  std::vector<std::int64_t> layers;
  for (std::size_t n = 0; n < items.size(); ++n) {
    if (items[n] == item) layers.push_back(static_cast<std::int64_t>(n));
  }
  return layers;
}

Architecture without_layers(Architecture architecture) {
  architecture.kinds = {Layer{}};
  return architecture;
}

}  // namespace

Declared read_kinds(const Family& family, const Json& config, const TensorSource& tensors) {
  const auto items = read_pattern(family, read_first(family, config, tensors), config);
  const auto ends_well = [&](const Json& last) {
    const Json* becomes = last_item(family.pattern, last, false);
    return items.back() == last || (becomes != nullptr && items.back() == *becomes);
  };
  if (const Json& last = family.pattern.ends_with; !last.is_null() && !ends_well(last)) {
    refuse(family, fmt::format("the last layer is {} in '{}'; expected {}, which the library that "
                               "runs the model makes of it",
                               items.back().dump(), family.pattern.key, last.dump()));
  }
  std::map<const FamilyKind*, Declared> read;
  std::vector<Layer> layers;
  for (const auto& item : items) {
    const FamilyKind& kind = kind_of(family, item);
    auto found = read.find(&kind);
    if (found == read.end()) {
      const std::vector<std::int64_t> layers_here = layers_of(items, item);
      const Json own = with_own_settings(family, kind, config, layers_here);
      const Family here = looking_at(kind.family, layers_here.front());
      found = read.emplace(&kind, read_alike(here, own, tensors)).first;
    }
    layers.push_back(found->second.architecture.kinds.front());
  }
  Declared declared = read.begin()->second;
  for (const auto& [kind, other] : read) {
    if (without_layers(other.architecture) != without_layers(declared.architecture)) {
      throw UsageError(
          fmt::format("[architectures] {}: its kinds of layers differ in more than "
                      "the layers",
                      family.file));
    }
  }
  declared.architecture.set_layers(layers);
  validate(declared.architecture);
  return declared;
}

// Keeps what is said, or left out, where it says this.
void write_pattern(const PatternEntry& pattern, std::vector<Json> items, Json& config) {
  if (!pattern.last_key.empty()) {
    std::int64_t last = 0;
    for (Json& item : items) {
      const Json* listed = last_item(pattern, item, true);
      last = listed == nullptr ? 0 : last + 1;  // one that others follow is written as it cannot be
      if (listed != nullptr) item = *listed;
    }
    const Json* said = find_path(config, pattern.last_key);
    const bool kept = said == nullptr && last == 0 && !config.empty();
    if (!kept && (said == nullptr || *said != Json(last))) set_path(config, pattern.last_key, last);
  }
  const auto layers = static_cast<std::int64_t>(items.size());
  const Json* found = pattern.key.empty() ? nullptr : find_path(config, pattern.key);
  const bool listed = found != nullptr && !found->is_null();
  const bool ruled_by_number = pattern.rule != PatternEntry::Rule::none;
  if (!listed && !config.empty() && ruled_by_number && derived(pattern, layers, config) == items) {
    return;
  }
  if (!pattern.key.empty()) {
    Json list(items);
    for (auto n = items.size(); listed && !pattern.further.empty() && n < found->size(); ++n) {
      list.push_back((*found)[n]);
    }
    set_path(config, pattern.key, list);
    return;
  }
  if (pattern.number_key.empty()) return;
  // The least number from which the items follow, with exceptions if there may be any. Where there
  // is none, reading back tells.
  const auto excepted = [&](std::int64_t number) {
    const std::vector<Json> by_rule = ruled(pattern, layers, number);
    std::optional<std::vector<std::int64_t>> numbers(std::in_place);
    for (std::size_t n = 0; n < items.size(); ++n) {
      if (items[n] == by_rule[n]) continue;
      if (pattern.except_key.empty() || items[n] != pattern.except_item) {
        numbers.reset();
        break;
      }
      numbers->push_back(static_cast<std::int64_t>(n));
    }
    return numbers;
  };
  for (std::int64_t number = least_number(pattern.rule); number <= layers; ++number) {
    const auto numbers = excepted(number);
    if (!numbers) continue;
    set_path(config, pattern.number_key, number);
    if (!pattern.except_key.empty()) set_path(config, pattern.except_key, Json(*numbers));
    return;
  }
}

// Of the kinds whose constants all hold where they apply, the one that states most.
const FamilyKind* kind_for(const Family& family, const Architecture& alike) {
  const Json fields = flat_fields(alike);
  const FamilyKind* best = nullptr;
  std::ptrdiff_t most = -1;
  for (const auto& kind : family.kinds) {
    const auto& entries = kind.family.fields;
    const auto value_of = [&](const std::string& name) { return fields.at(name); };
    const auto holds = [&](const auto& entry) {
      const auto& constant = entry.second.constant;
      return !constant || is_formula(*constant) || constant->is_structured() ||
             !entry.second.when.applies(value_of) || fields.at(entry.first) == *constant;
    };
    if (!std::ranges::all_of(entries, holds)) continue;
    const auto stated = std::ranges::count_if(
        entries, [](const auto& entry) { return entry.second.constant.has_value(); });
    if (stated > most) {
      most = stated;
      best = &kind;
    }
  }
  return best;
}

}  // namespace regauge
