#pragma once

#include "config.h"

namespace regauge {

// For families whose layers differ.
// The config as if all layers were of the family's one kind; not validated.
Declared read_alike(const Family& family, const nlohmann::json& config,
                    const TensorSource& tensors);
// Reads each kind that the config's pattern names as if all layers were of it, and puts the layers
// together. Throws UsageError.
Declared read_kinds(const Family& family, const nlohmann::json& config,
                    const TensorSource& tensors);
// The pattern into a config; `items` has one for every layer.
void write_pattern(const PatternEntry& pattern, std::vector<nlohmann::json> items,
                   nlohmann::json& config);
// The family's kind that says what a layer of `alike`, whose layers are all of one kind, computes;
// nullptr if none does.
const FamilyKind* kind_for(const Family& family, const Architecture& alike);

}  // namespace regauge
