#pragma once

#include "regauge/action/activations.h"
#include "regauge/arch/parameters.h"
#include "regauge/base/progress.h"
#include "regauge/symmetry/scope.h"

namespace regauge {

// The element that brings B's activations closest to A's, where both stand in comparable form:
//   stream    the rotation (or what the group has instead) nearest to the sum over all taps of the
//             stream of B^T A, every row of length one
//   heads     matched by what they write to the stream and where they attend, within their groups
//   neurons   matched by the correlation of their activities, with its sign where the group has one
//   gauges    of the matched heads by their weights, the nearest rotations and phases
// Only what the scope contains moves, and the rest is fitted to that. Memory is that of one batch's
// taps, of a covariance per layer, and of B moved. Progress counts batches.
Element align_by_activations(const Symmetry& symmetry, const Parameters<double>& a,
                             const Parameters<double>& b, PairActivations& activations,
                             const Scope& scope, Progress& progress);

}  // namespace regauge
