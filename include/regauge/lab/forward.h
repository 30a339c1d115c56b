#pragma once

#include <map>
#include <string>

#include "regauge/lab/data.h"

namespace regauge::lab {

// What a model computes on its way, one row per position, sequence after sequence:
//   NAME.norm.input    the stream that a norm reads (embed, layers.N.attn, layers.N.ffn, head)
//   layers.N.attn.heads   every head's mixture of values, [h * d_v], what attn.o.weight reads
//   layers.N.ffn.hidden   the hidden units, [m], what ffn.down.weight reads
//   head.hidden        the units of a head's transform, where there is one
//   head.input         what the head reads
template <class Scalar>
using Taps = std::map<std::string, Matrix<Scalar>>;

// The function of an architecture, in the precision of the parameters throughout: the head's
// outputs (the stream itself for Output::hidden), one row per position, or one per sequence for
// Output::classes. Throws UsageError for a batch that the architecture cannot take. Instantiated
// for float and double.
template <class Scalar>
Matrix<Scalar> forward(const Architecture& architecture, const Parameters<Scalar>& parameters,
                       const Batch& batch, Taps<Scalar>* taps = nullptr);

}  // namespace regauge::lab
