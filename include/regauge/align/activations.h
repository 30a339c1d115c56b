#pragma once

#include "regauge/action/activations.h"
#include "regauge/base/progress.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// The element that brings B's activations closest to A's, where both stand in comparable form:
//   stream    the rotation (or what the group has instead) nearest to the sum over all taps of the
//             stream of B^T A, every row of length one
//   heads     matched by what they write to the stream and where they attend, within their groups
//   neurons   matched by the correlation of their activities, with its sign where the group has one
//   gauges    of the matched heads by their weights, the nearest rotations and phases
// Memory is that of one batch's taps, and of a covariance per layer. Progress counts batches.
Element align_by_activations(const Symmetry& symmetry, const Parameters<double>& a,
                             const Parameters<double>& b, Activations& activations,
                             Progress& progress);

}  // namespace regauge
