#pragma once

#include "gauge_fit.h"
#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"
#include "regauge/symmetry/scope.h"

namespace regauge {

// Heads: where B's go and how they rotate inside, so that as much as possible of <A, g B> is
// reached; exactly for single heads, by alternation inside groups of queries. Spaces out of scope
// stay as they are. Of one layer, or of several that share a table, whose heads change places
// together.
class HeadMatch {
 public:
  HeadMatch(const Symmetry& symmetry, const Scope& scope, const Space& heads)
      : symmetry_(symmetry),
        scope_(scope),
        heads_(heads),
        plain_(Matrix<double>::Zero(heads.count, heads.count)) {}

  // `a` and `b` are the layer's tensors in comparable form, b moved as far as is known.
  template <class Scalar>
  void add(std::int64_t layer, const Parameters<Scalar>& a, const Parameters<Scalar>& b);
  Element solve() &&;

 private:
  // One rotation for all heads of a layer and for the key that they share (DeepSeek).
  struct SharedRotation {
    const Space* space;
    Matrix<double> all_queries, key;

    Matrix<double> queries(std::int64_t i, std::int64_t j) const;
  };

  const Symmetry& symmetry_;
  const Scope& scope_;
  const Space& heads_;
  std::vector<SharedRotation> rotary_;
  std::vector<HeadCross> gauges_;
  std::vector<bool> may_turn_;
  Matrix<double> plain_;  // [h, h], what no rotation reaches
};

// Of one layer.
template <class Scalar>
Element match_heads(const Symmetry& symmetry, std::int64_t layer, const Scope& scope,
                    const Parameters<Scalar>& a, const Parameters<Scalar>& b);

}  // namespace regauge
