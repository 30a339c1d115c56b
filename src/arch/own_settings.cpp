#include "own_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "config_path.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

// A name beside the object of single layers: "text_config/head_dim" for "head_dim".
std::string beside(const PatternEntry& pattern, const std::string& name) {
  const std::size_t slash = pattern.by_layer.rfind('/');
  return slash == std::string::npos ? name : pattern.by_layer.substr(0, slash + 1) + name;
}

// Null says that no layer has any.
const Json* settings_of_layers(const Family& family, const Json& config) {
  if (family.pattern.by_layer.empty()) return nullptr;
  return find_path(config, family.pattern.by_layer);
}

// Empty, null or absent: none. Transformers writes numbers of one length: "05" beside "11".
Json settings_of(const Json& all, std::int64_t layer) {
  Json settings;
  if (!all.is_object()) return Json::object();
  for (const auto& [key, value] : all.items()) {
    const std::size_t zeros = std::min(key.find_first_not_of('0'), key.size() - 1);
    if (key.empty() || key.substr(zeros) != std::to_string(layer) || value.is_null()) continue;
    if (!settings.is_null() && settings != value) {
      throw UsageError(
          fmt::format("[arch] config: layer {} has settings of its own twice: {} and {}", layer,
                      settings.dump(), value.dump()));
    }
    settings = value;
  }
  return settings.is_null() ? Json::object() : settings;
}

// The length of the numbers of layers, where they are of one.
std::size_t digits_of(const Json& all) {
  for (const auto& [key, value] : all.items()) {
    if (key.size() > 1 && key.starts_with('0')) return key.size();
  }
  return 1;
}

void erase_path(Json& config, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  Json* object = &config;
  if (slash != std::string::npos) {
    if (find_path(config, path.substr(0, slash)) == nullptr) return;
    std::string above("/");
    above.append(path, 0, slash);
    object = &config.at(Json::json_pointer(above));
  }
  object->erase(slash == std::string::npos ? path : path.substr(slash + 1));
}

void put_or_erase(Json& config, const std::string& path, const Json* value) {
  if (value == nullptr) return erase_path(config, path);
  set_path(config, path, Json(*value));
}

Json renamed(const Family& family, const FamilyKind& kind, Json config, const Json& settings) {
  const Json before = config;
  for (const auto& [name, own] : kind.own) {
    const auto said = settings.find(name);
    const Json* value =
        said != settings.end() ? &*said : find_path(before, beside(family.pattern, name));
    put_or_erase(config, beside(family.pattern, own), value);
  }
  return config;
}

// Of the first layer where none are given.
Json without_lists(const Family& family, Json config, const std::vector<std::int64_t>& layers) {
  for (const auto& key : family.pattern.lists) {
    const Json* found = find_path(config, key);
    if (found == nullptr || !found->is_array()) continue;
    const Json list = *found;
    const auto item = [&](std::int64_t layer) -> const Json& {
      if (layer >= static_cast<std::int64_t>(list.size())) {
        throw UsageError(fmt::format("[{}] config: '{}' is {}, which has no item for layer {}",
                                     family.name, key, list.dump(), layer));
      }
      return list[static_cast<std::size_t>(layer)];
    };
    const std::int64_t first = layers.empty() ? 0 : layers.front();
    for (const std::int64_t layer : layers) {
      if (item(layer) == item(first)) continue;
      throw UsageError(
          fmt::format("[{}] config: '{}' is {}; the layers {} and {}, which are of the "
                      "same kind, differ",
                      family.name, key, list.dump(), first, layer));
    }
    set_path(config, key, item(first));
  }
  return config;
}

void write_lists(const Family& family, const std::vector<const FamilyKind*>& kinds,
                 const std::map<const FamilyKind*, Json>& written, const Json& base, Json& config) {
  for (const auto& key : family.pattern.lists) {
    Json list = Json::array();
    for (const FamilyKind* kind : kinds) {
      const Json* value = find_path(written.at(kind), key);
      list.push_back(value == nullptr ? Json() : *value);
    }
    const auto is_first = [&](const Json& item) { return item == list.front(); };
    const Json* before = find_path(base, key);
    const bool listed = before != nullptr && before->is_array();
    if (!list.front().is_null() && (listed || !std::ranges::all_of(list, is_first))) {
      set_path(config, key, std::move(list));
    }
  }
}

}  // namespace

Json with_own_settings(const Family& family, const FamilyKind& kind, const Json& said,
                       const std::vector<std::int64_t>& layers) {
  const Json config = without_lists(family, said, layers);
  const Json* all = settings_of_layers(family, config);
  if (all == nullptr || layers.empty()) return config;
  const auto refuse = [&](std::int64_t layer, const std::string& problem) {
    throw UsageError(fmt::format("[{}] config: '{}/{}' {}", family.name, family.pattern.by_layer,
                                 layer, problem));
  };
  const Json first = settings_of(*all, layers.front());
  for (const std::int64_t layer : layers) {
    const Json settings = settings_of(*all, layer);
    if (!settings.is_object()) refuse(layer, "is no object");
    if (settings != first) {
      refuse(layer, fmt::format("is {}, but that of layer {}, which is of the same kind, is {}",
                                settings.dump(), layers.front(), first.dump()));
    }
    for (const auto& [name, value] : settings.items()) {
      const auto is_known = [&, &known = name](const auto& entry) { return entry.first == known; };
      if (std::ranges::none_of(kind.own, is_known)) {
        refuse(layer, fmt::format("sets '{}' for this layer, which is not supported", name));
      }
    }
  }
  return renamed(family, kind, config, first);
}

Json with_own_settings(const Family& family, const FamilyKind& kind, const Json& said) {
  const Json config = without_lists(family, said, {});
  const Json* all = settings_of_layers(family, config);
  if (all == nullptr || !all->is_object() || kind.own.empty()) return config;
  for (const auto& [layer, settings] : all->items()) {
    if (settings.is_object() && !settings.empty()) return renamed(family, kind, config, settings);
  }
  return config;
}

void write_own_settings(const Family& family, const std::vector<const FamilyKind*>& kinds,
                        const std::map<const FamilyKind*, Json>& written, const Json& base,
                        Json& config) {
  write_lists(family, kinds, written, base, config);
  const Json* all = settings_of_layers(family, base);
  if (all == nullptr) return;
  Json by_layer = Json::object();
  const std::size_t digits = digits_of(*all);
  for (std::size_t n = 0; n < kinds.size(); ++n) {
    const Json before = settings_of(*all, static_cast<std::int64_t>(n));
    Json settings = Json::object();
    for (const auto& [name, own] : kinds[n]->own) {
      const Json* value = find_path(config, beside(family.pattern, own));
      const Json* of_model = find_path(config, beside(family.pattern, name));
      if (value == nullptr) continue;
      const bool differs = of_model == nullptr || *of_model != *value;
      if (differs || before.contains(name)) settings[name] = *value;
    }
    if (!settings.empty()) by_layer[fmt::format("{:0{}}", n, digits)] = std::move(settings);
  }
  for (const auto& kind : family.kinds) {
    for (const auto& [name, own] : kind.own) {
      const std::string path = beside(family.pattern, own);
      put_or_erase(config, path, find_path(base, path));
    }
  }
  set_path(config, family.pattern.by_layer, std::move(by_layer));
}

}  // namespace regauge
