#pragma once

#include "regauge/action/activations.h"
#include "regauge/arch/parameters.h"
#include "regauge/lab/data.h"

namespace regauge::lab {

// The function of an architecture, in the precision of the parameters throughout: the head's
// outputs (the stream itself for Output::hidden), one row per position, or one per sequence where
// one position is read. Several outputs stand one after another in the row of their sequence,
// logits as log-probabilities where these count. Throws UsageError for a batch that the
// architecture cannot take. Instantiated for float and double.
template <class Scalar>
Matrix<Scalar> forward(const Architecture& architecture, const Parameters<Scalar>& parameters,
                       const Batch& batch, Taps<Scalar>* taps = nullptr);

}  // namespace regauge::lab
