#pragma once

#include "gauge_fit.h"
#include "regauge/arch/parameters.h"
#include "regauge/symmetry/scope.h"

namespace regauge {

// The member with entries of modulus 1 that maximises <cross, G> + <moduli, |G|>, and what it
// reaches.
BlockFit fit_exchange(const GainExchange& group, const Matrix<double>& cross,
                      const Matrix<double>& moduli);

// match_heads for a layer with a QK-norm of each head: places, a sign per kv head, one exchange of
// coordinates for all heads, and the rotations of the values. By alternation, from several starts.
template <class Scalar>
Element match_heads_behind_norm(const Symmetry& symmetry, std::int64_t layer, const Scope& scope,
                                const Parameters<Scalar>& a, const Parameters<Scalar>& b);

}  // namespace regauge
