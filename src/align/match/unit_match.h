#pragma once

#include "cross.h"
#include "regauge/arch/parameters.h"

namespace regauge {

// What matching B's units (rows) with A's (columns) is worth, for a space of single numbers that
// change places: neurons, or the coordinates of a stream that cannot rotate.
template <class Scalar>
struct UnitSimilarity {
  Matrix<Scalar> plain;   // what a sign does not reach
  Matrix<Scalar> turned;  // what it does
  Matrix<Scalar> groups;  // what exchanging groups (experts) is worth besides; empty: no groups

  explicit UnitSimilarity(const Space& space);
  // Adds the tensors of one layer, of A and of B as moved so far.
  void add(const Symmetry& symmetry, const Space& space, const Parameters<Scalar>& a,
           const Parameters<Scalar>& b);
};

// The best permutation, each unit with the better sign where the group has one. `value` receives
// what it is worth.
template <class Scalar>
BlockMap<double> match_units(const Space& space, UnitSimilarity<Scalar> similarity, double& value);

// The same for one layer's tensors, of A and of B as moved so far. Where experts have many neurons
// together, experts are matched first, and then the neurons of each.
template <class Scalar>
BlockMap<double> match_units(const Symmetry& symmetry, const Space& space,
                             const Parameters<Scalar>& a, const Parameters<Scalar>& b);

}  // namespace regauge
