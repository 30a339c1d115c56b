#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "family.h"

namespace regauge {

// An object in the config may hold settings of single layers, {"5": {"head_dim": 512}}
// (transformers' per_layer_config). Those of a kind of layers must be alike. The config as these
// layers, which are all of the kind, read it: their own settings under the names that the kind has
// for them. Without the object it stays as it is. Throws UsageError.
nlohmann::json with_own_settings(const Family& family, const FamilyKind& kind,
                                 const nlohmann::json& config,
                                 const std::vector<std::int64_t>& layers);
// Lists with a setting for every layer are replaced by that of these layers.
// The same with the settings of the first layer that has any of them, and no lists.
nlohmann::json with_own_settings(const Family& family, const FamilyKind& kind,
                                 const nlohmann::json& config);
// Where `base` has the object: moves what the kinds' names say in `config` back into it, and makes
// lists of what the kinds' configs in `written` have. `kinds` has one for every layer.
void write_own_settings(const Family& family, const std::vector<const FamilyKind*>& kinds,
                        const std::map<const FamilyKind*, nlohmann::json>& written,
                        const nlohmann::json& base, nlohmann::json& config);

}  // namespace regauge
