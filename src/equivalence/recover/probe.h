#pragma once

#include "regauge/arch/parameters.h"
#include "stream.h"

namespace regauge {

constexpr std::int64_t kProbes = 12;

// Random vectors of what is known of the stream, [kProbes, D], always the same for a name.
Matrix<double> probes(const char* name, const Known& known);

// S such that P = W S S^T W^T is the projector onto the span of W's columns: the same for W G, G
// invertible.
Matrix<double> span_root(const Matrix<double>& columns);

// Vectors of the stream, [any, D], that a layer's heads and neurons make of known ones whatever
// their own coordinates: the probes' parts within what q, k, v or o span, a neuron's vectors in
// units of their lengths. Equal for two models whose heads and neurons are in the same order, up to
// what is not known of the stream yet.
std::vector<Matrix<double>> layer_vectors(const Architecture& architecture, std::int64_t layer,
                                          const Parameters<double>& parameters, const Known& known);

}  // namespace regauge
