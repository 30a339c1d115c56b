#include "family_under.h"

#include "regauge/base/error.h"

namespace regauge {
namespace {

using Ordered = nlohmann::ordered_json;

std::string joined(const std::string& object, const std::string& key) {
  return object.empty() ? key : object + "/" + key;
}

// A key or a list of keys.
void move_keys(Ordered& entry, const char* name, const std::vector<std::string>& objects) {
  const auto found = entry.find(name);
  if (found == entry.end() || found->is_null()) return;
  const Ordered keys = found->is_array() ? *found : Ordered::array({*found});
  Ordered moved = Ordered::array();
  for (const auto& object : objects) {
    for (const auto& key : keys) moved.push_back(joined(object, key.get<std::string>()));
  }
  *found = moved.size() == 1 ? moved.front() : moved;
}

void move_entries(Ordered& family, const std::vector<std::string>& objects) {
  for (const char* map : {"fields", "variables"}) {
    if (!family.contains(map) || !family[map].is_object()) continue;
    for (auto& entry : family[map]) {
      if (!entry.is_object()) continue;
      for (const char* name : {"key", "count_of"}) move_keys(entry, name, objects);
    }
  }
  if (!family.contains("rope")) return;
  for (const char* name :
       {"theta", "fraction", "dims", "type", "factor", "low_freq_factor", "high_freq_factor",
        "original_positions", "theta_echo", "fraction_echo", "turning"}) {
    move_keys(family["rope"], name, objects);
  }
}

void move_rules(Ordered& family, const char* map, const std::vector<std::string>& objects,
                bool beside) {
  if (!family.contains(map)) return;
  Ordered moved = beside ? family[map] : Ordered::object();
  for (const auto& object : objects) {
    for (const auto& [key, value] : family[map].items()) moved[joined(object, key)] = value;
  }
  family[map] = moved;
}

}  // namespace

Ordered under_objects(Ordered family, const std::vector<std::string>& objects) {
  move_entries(family, objects);
  move_rules(family, "requires", objects, true);
  move_rules(family, "harmless", objects, false);
  if (!family.contains("kinds")) return family;
  if (objects.size() != 1) {
    throw UsageError("[architectures] 'under' may name one object only where layers differ");
  }
  Ordered& kinds = family["kinds"];
  move_keys(kinds, "key", objects);
  move_keys(kinds, "by_layer", objects);
  move_keys(kinds, "lists", objects);
  for (const char* rule : {"period", "every", "first", "except", "last"}) {
    if (kinds.contains(rule)) move_keys(kinds[rule], "key", objects);
  }
  for (auto& kind : kinds["of"]) move_entries(kind, objects);
  return family;
}

Ordered merged(Ordered parent, const Ordered& child) {
  for (const auto& [key, value] : child.items()) {
    const bool map = (key == "fields" || key == "variables" || key == "tensors" ||
                      key == "requires" || key == "harmless" || key == "rope") &&
                     value.is_object() && parent.contains(key);
    if (!map) {
      parent[key] = value;
      continue;
    }
    for (const auto& [name, entry] : value.items()) {
      if (entry.is_null()) {
        parent[key].erase(name);
      } else {
        parent[key][name] = entry;
      }
    }
  }
  return parent;
}

Ordered with_name(const Ordered& json) {
  std::string text = json.dump();
  const auto replace = [&](std::string_view word, const char* key) {
    const auto name = json.find(key);
    if (name == json.end() || !name->is_string()) return;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
      text.replace(at, word.size(), name->get<std::string>());
    }
  };
  replace("{family}", json.contains("spelled") ? "spelled" : "family");
  replace("{class}", "class");
  return Ordered::parse(text);
}

}  // namespace regauge
