#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "regauge/equivalence/compare.h"

namespace regauge {

// Of a model, -1 for embedding and head; none stands for all.
using Layers = std::set<std::int64_t>;

// compare() and compare_sketched() in some layers. Tensors of others are left empty.
std::vector<TensorResidual> compare_layers(const Symmetry& symmetry, const Element& a_from_b,
                                           const ParameterSource& a, const ParameterSource& b,
                                           const Layers& only, Progress& progress);
std::vector<TensorResidual> compare_layers_sketched(const Symmetry& symmetry,
                                                    const Element& a_from_b,
                                                    const ParameterSource& a,
                                                    const ParameterSource& b, std::uint64_t seed,
                                                    const Layers& only, Progress& progress);

}  // namespace regauge
