#pragma once

#include <cstdint>
#include <vector>

#include "regauge/arch/parameters.h"
#include "stream.h"

namespace regauge {

// A part of a layer is recognised by what it computes: its answers to a few fixed random inputs do
// not depend on its own coordinates, whatever its group. Inputs and outputs are taken from what is
// known of the stream. Nothing of size D x D is formed.

// One row per query head: logits at two distances, what the values write in some direction, and the
// spaces that q, k, v and o span.
Matrix<double> head_signatures(const Architecture& architecture, std::int64_t layer,
                               const Parameters<double>& parameters, const Known& known);
// One row per neuron of the maps `at` ("layers.3.ffn"): what it writes in some direction, where its
// vectors point, and how its expert is chosen.
Matrix<double> neuron_signatures(const Architecture& architecture, const std::string& at,
                                 const Parameters<double>& parameters, const Known& known);

// One row per unit of a map and its activation: where its vector points, up to the factors of the
// units' group.
Matrix<double> unit_signatures(const Space& units, const Matrix<double>& weight,
                               const Known& known);

// A permutation p such that row i of b is row p(i) of a, nearest first: exact where each row has a
// counterpart. Columns count in units of their size in a. `rounding` is the relative rounding of
// the numbers that the rows are made of; of many rows that are equal but for it, any one will do.
std::vector<std::int64_t> match_rows(const Matrix<double>& b, const Matrix<double>& a,
                                     double rounding);

}  // namespace regauge
