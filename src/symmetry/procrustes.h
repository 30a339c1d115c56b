#pragma once

#include <optional>
#include <vector>

#include "regauge/symmetry/block_map.h"
#include "regauge/symmetry/orthogonal.h"
#include "regauge/symmetry/rotary.h"

namespace regauge {

// Each maximises <cross, G> = tr(cross^T G) over a group of n x n matrices. With cross = B^T A that
// is the member with the smallest |A - B G|. Over all of O(n) it is polar_factor(cross).

// Over the members of the group, which leave a subspace fixed.
Matrix<double> orthogonal_procrustes(const Orthogonal& group, const Matrix<double>& cross);
// Over permutations, with signs if asked for: a map of n blocks of width 1.
BlockMap<double> signed_permutation_procrustes(const Matrix<double>& cross, bool signs);
// Over the members with entries of modulus 1, which maximise <cross, G> + <moduli, |G|>.
Matrix<double> exchange_procrustes(const GainExchange& group, const Matrix<double>& cross,
                                   const Matrix<double>& moduli);

// The same with half turns T_i of each head, by which sum_i <cross_i, T_i G> + <moduli, |G|> is
// largest.
struct TurnedExchange {
  Matrix<double> exchange;            // G
  std::vector<Matrix<double>> turns;  // T_i
};
TurnedExchange exchange_procrustes(const GainExchange& group, const HalfTurns& turns,
                                   const std::vector<Matrix<double>>& crosses,
                                   const Matrix<double>& moduli);
// The half turns T by which <cross, T exchange> is largest.
Matrix<double> half_turns_procrustes(const HalfTurns& group, const Matrix<double>& cross,
                                     const Matrix<double>& exchange);

}  // namespace regauge
