#pragma once

#include <string>
#include <vector>

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// The steps of canon(), each on the tensors of one layer (or of embedding and head). `limits`
// receives what rounding, as a relative error, decides.

// Heads and neurons in the order of their size, largest first; groups of query heads as a whole.
// Heads of several layers that share a table: by the first of them; spaces of `found` are done.
Element in_order(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& tensors,
                 const Element& found, double rounding, std::vector<std::string>& limits);

// The coordinates of all layers' tables in the order of the first layer's gates, largest first,
// with a common gain of 1. `gates`: of the first layer, as the stream stands.
Element tables_in_order(const Symmetry& symmetry, const Matrix<double>& gates,
                        const Matrix<double>& gain, double rounding,
                        std::vector<std::string>& limits);

// The coordinates of latents, rotated so that what writes them is nearest to the fixed table.
Element turned_latents(const Symmetry& symmetry, std::int64_t layer,
                       const Parameters<double>& tensors);

// The coordinates of balanced heads and signs of neurons, rotated to the fixed table.
Element turned(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& tensors);

// The channels of heads that are seen one by one, in the order of their size, with signs.
Element ordered_channels(const Symmetry& symmetry, std::int64_t layer,
                         const Parameters<double>& tensors, double rounding,
                         std::vector<std::string>& limits);

// Behind a QK-norm: signs of kv heads, and quarter turns and places of the gains' coordinates.
Element turned_qk_norm(const Symmetry& symmetry, std::int64_t layer,
                       const Parameters<double>& tensors);

}  // namespace regauge
