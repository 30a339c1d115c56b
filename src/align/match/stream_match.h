#pragma once

#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"
#include "regauge/symmetry/scope.h"
#include "unit_match.h"

namespace regauge {

// How B's stream meets A's: what all tensors that live in it say together, and the map that makes
// the most of it. Sums over layers, so that each need be read once.
template <class Scalar>
class StreamMatch {
 public:
  explicit StreamMatch(const Symmetry& symmetry, std::string stream = "residual");

  bool exists() const { return space_ != nullptr; }
  void add(const Parameters<Scalar>& a, const Parameters<Scalar>& b);
  void add(const StreamMatch& other);
  // Vectors of the stream itself, b's transposed times a's.
  void add(const Matrix<Scalar>& cross) { cross_ += cross; }
  // The best map of the stream (on top of what has moved b), and <A, g B> with it.
  Element solve(double& value) const;
  // The best permutation of the coordinates, without signs; nothing where the group holds it not,
  // because a fixed table of positions pins the stream. Where the group has no rotations, as solve.
  Element solve_permutation() const;
  // <A, B> as it stands.
  double value() const;

 private:
  const Symmetry& symmetry_;
  std::string stream_;       // its space
  const Space* space_;       // null: the stream has no group
  bool common_sign_;         // of all coordinates at once, where a layer norm sees their mean
  Matrix<Scalar> cross_;     // what rotates or changes its sign
  Matrix<Scalar> constant_;  // what only changes places
};

// How B's tables meet A's, where a map brings them into the stream: the best map of their
// coordinates, if the scope has it.
template <class Scalar>
Element match_table_stream(const Symmetry& symmetry, const Scope& scope,
                           const Parameters<Scalar>& a, const Parameters<Scalar>& b);

}  // namespace regauge
