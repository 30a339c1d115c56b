#pragma once

#include <cstdint>
#include <vector>

#include "regauge/arch/parameters.h"

namespace regauge {

// A part of a layer is recognised by what it computes: its answers to a few fixed random inputs do
// not depend on its own coordinates, whatever its group. Nothing of size D x D is formed.

// One row per query head: logits at two distances, and what the values write in some direction.
Matrix<double> head_signatures(const Architecture& architecture, std::int64_t layer,
                               const Parameters<double>& parameters);
// One row per neuron: what it writes in some direction.
Matrix<double> neuron_signatures(const Architecture& architecture, std::int64_t layer,
                                 const Parameters<double>& parameters);

// A permutation p such that row i of b is row p(i) of a, nearest first: exact where each row has a
// counterpart. Columns count in units of their size in a.
std::vector<std::int64_t> match_rows(const Matrix<double>& b, const Matrix<double>& a);

}  // namespace regauge
