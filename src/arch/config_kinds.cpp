#include "config_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config_path.h"
#include "config_value.h"
#include "fields.h"
#include "formula.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostLayers = 1 << 20;

[[noreturn]] void refuse(const Family& family, const std::string& problem) {
  throw UsageError(fmt::format("[{}] config: {}", family.name, problem));
}

// As the period gives it.
std::vector<Json> periodic(const PatternEntry& pattern, std::int64_t layers, const Json& config) {
  std::int64_t period = pattern.period;
  if (!pattern.period_key.empty()) {
    const Json* said = find_path(config, pattern.period_key);
    if (said != nullptr && said->is_number_integer()) period = said->get<std::int64_t>();
  }
  std::vector<Json> items;
  for (std::int64_t n = 0; n < layers; ++n) {
    items.push_back(period > 0 && (n + 1) % period == 0 ? pattern.last : pattern.others);
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
    const double times = evaluate_formula(run.times, number);
    for (double i = 0; i < times && i < kMostLayers; ++i) {
      items.insert(items.end(), run.items.begin(), run.items.end());
    }
  }
  return items;
}

std::vector<Json> read_pattern(const Family& family, const Declared& alike, const Json& config) {
  const PatternEntry& pattern = family.pattern;
  const std::int64_t layers = alike.architecture.layers;
  if (!pattern.runs.empty()) {
    auto items = in_runs(family, alike);
    if (static_cast<std::int64_t>(items.size()) == layers) return items;
    refuse(family, fmt::format("it asks for {} layers of an encoder and a decoder", layers));
  }
  const Json* list = pattern.key.empty() ? nullptr : find_path(config, pattern.key);
  if (list == nullptr || list->is_null()) {
    if (pattern.period == 0) refuse(family, fmt::format("'{}' is missing", pattern.key));
    return periodic(pattern, layers, config);
  }
  if (!list->is_array() || static_cast<std::int64_t>(list->size()) != layers) {
    refuse(family, fmt::format("'{}' is {}; expected a list with an item for each of the {} layers",
                               pattern.key, list->dump(), layers));
  }
  return list->get<std::vector<Json>>();
}

// What the first kind says, for what belongs to the model.
Declared read_first(const Family& family, const Json& config, const TensorSource& tensors) {
  Declared first = read_alike(family.kinds.front().family, config, tensors);
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

Architecture without_layers(Architecture architecture) {
  architecture.kinds = {Layer{}};
  return architecture;
}

}  // namespace

Declared read_kinds(const Family& family, const Json& config, const TensorSource& tensors) {
  const auto items = read_pattern(family, read_first(family, config, tensors), config);
  std::map<const FamilyKind*, Declared> read;
  std::vector<Layer> layers;
  for (const auto& item : items) {
    const FamilyKind& kind = kind_of(family, item);
    auto found = read.find(&kind);
    if (found == read.end()) {
      found = read.emplace(&kind, read_alike(kind.family, config, tensors)).first;
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

void write_pattern(const PatternEntry& pattern, const std::vector<Json>& items, Json& config) {
  if (pattern.key.empty()) return;
  const Json* found = find_path(config, pattern.key);
  const bool silent = found == nullptr || found->is_null();
  const auto layers = static_cast<std::int64_t>(items.size());
  if (silent && pattern.period > 0 && periodic(pattern, layers, config) == items &&
      !config.empty()) {
    return;
  }
  set_path(config, pattern.key, Json(items));
}

// Of the kinds whose constants all hold, the one that states most.
const FamilyKind* kind_for(const Family& family, const Architecture& alike) {
  const Json fields = flat_fields(alike);
  const FamilyKind* best = nullptr;
  std::ptrdiff_t most = -1;
  for (const auto& kind : family.kinds) {
    const auto& entries = kind.family.fields;
    const auto holds = [&](const auto& entry) {
      const auto& constant = entry.second.constant;
      return !constant || is_formula(*constant) || fields.at(entry.first) == *constant;
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
