#pragma once

#include "regauge/action/rewrite.h"

namespace regauge {

// A model cut down to one of its layers, between its embedding and its head: what carries the whole
// of B to A carries this part of it, and is found in a fraction of the time. (Where norms stand
// before the sub-layers; else a layer's constants belong to the one before.)
bool has_single_layers(const Architecture& shape);
Architecture one_layer(Architecture shape);
// `model`, read as `shape` through `patches`, of which layer `layer` is read as the only one.
ParameterSource one_layer(const Model& model, const Architecture& shape, const Patches& patches,
                          std::int64_t layer);

}  // namespace regauge
