#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <map>

#include "fields.h"
#include "regauge/arch/architecture.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

Architecture all_like(const Architecture& a, std::int64_t layer) {
  return a.with_layers_like(layer, a.layers);
}

}  // namespace

std::string FieldDifference::where() const {
  if (layers.empty()) return "";
  return fmt::format("layer{} {}: ", layers.size() == 1 ? "" : "s", fmt::join(layers, ", "));
}

// Layer by layer: two models whose layers are all of the kind at hand differ in the model's own
// fields and in those of that layer.
std::vector<FieldDifference> differing_fields(const Architecture& a, const Architecture& b) {
  const std::int64_t layers = std::min(a.layers, b.layers);
  std::vector<FieldDifference> result;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::size_t>> seen;  // by two kinds
  const auto kind = [](const Architecture& of, std::int64_t layer) {
    return of.pattern.empty() ? 0 : of.pattern[static_cast<std::size_t>(layer)];
  };
  for (std::int64_t layer = 0; layer < std::max<std::int64_t>(1, layers); ++layer) {
    const auto pair = std::pair{kind(a, layer), kind(b, layer)};
    if (const auto known = seen.find(pair); known != seen.end()) {
      for (const auto at : known->second) result[at].layers.push_back(layer);
      continue;
    }
    auto& places = seen[pair];
    const Json left = complete_json(all_like(a, layer)), right = complete_json(all_like(b, layer));
    for (const auto& [key, value] : left.items()) {
      if (same_value(value, right.at(key))) continue;
      const FieldDifference found{key, value.dump(), right.at(key).dump(), {layer}};
      std::size_t at = 0;
      while (at < result.size() && (result[at].field != found.field || result[at].a != found.a ||
                                    result[at].b != found.b)) {
        ++at;
      }
      if (at < result.size()) {
        result[at].layers.push_back(layer);
      } else {
        result.push_back(found);
      }
      places.push_back(at);
    }
  }
  for (auto& difference : result) {
    if (static_cast<std::int64_t>(difference.layers.size()) == layers) difference.layers.clear();
  }
  return result;
}

}  // namespace regauge
