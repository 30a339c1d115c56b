#pragma once

#include "cross.h"
#include "regauge/symmetry/element.h"
#include "regauge/symmetry/scope.h"

namespace regauge {

// The heads of one layer: where B's go and how they turn inside, so that as much as possible of
// <A, g B> is reached; exactly for single heads, by alternation inside groups of queries. Spaces
// out of scope stay as they are. `a` and `b` are the layer's tensors in comparable form, b moved as
// far as is known.
template <class Scalar>
Element match_heads(const Symmetry& symmetry, std::int64_t layer, const Scope& scope,
                    const Parameters<Scalar>& a, const Parameters<Scalar>& b);

// The rotations of the layer's latents: by what writes them, and where `known` names them already,
// so that heads have been matched, by what reads them, too.
template <class Scalar>
Element match_latents(const Symmetry& symmetry, std::int64_t layer, const Scope& scope,
                      const Parameters<Scalar>& a, const Parameters<Scalar>& b,
                      const Element& known);

}  // namespace regauge
