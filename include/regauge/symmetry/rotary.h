#pragma once

#include <vector>

#include "regauge/symmetry/matrix_group.h"

namespace regauge {

// The coordinates of a rotary head by what the rotations R_t = rot(t f_0) + rot(t f_1) + ... + 1, t
// an integer, do to them. Pair b is (2b, 2b+1); the coordinates after the pairs do not rotate.
// Characters f and -f are one class, with the second coordinate reversed.
struct RotaryClasses {
  struct Pair {
    std::int64_t first;  // coordinate of the pair's first member
    double sign;         // -1: the second coordinate counts reversed
  };
  RotaryClasses(std::int64_t size, const std::vector<double>& frequencies);

  std::vector<std::vector<Pair>> turning;  // pairs with the same character
  std::vector<std::int64_t> still;      // no rotation: also frequencies that are multiples of 2 pi
  std::vector<std::int64_t> half_turn;  // frequency pi: a change of sign
  // Those of `still` and `half_turn` that are not empty.
  std::vector<std::vector<std::int64_t>> real() const;
};

// The invertible matrices that commute with every R_t (theory.md section 1). A class of u turning
// pairs sees GL(u, C), the coordinates at rest GL(u, R), those at pi as well.
class RotaryCommutant {
 public:
  RotaryCommutant(std::int64_t size, const std::vector<double>& frequencies);

  std::string name() const;
  std::int64_t size() const { return size_; }
  std::int64_t dimension() const;
  double log2_components() const { return static_cast<double>(real_.size()); }
  Matrix<double> random(Random& random) const;
  Matrix<double> project(const Matrix<double>& matrix) const;
  double violation(const Matrix<double>& matrix) const;

  // Pairs with the same character.
  const std::vector<std::vector<RotaryClasses::Pair>>& turning() const { return complex_; }

 private:
  std::int64_t size_;
  std::vector<std::vector<RotaryClasses::Pair>> complex_;  // classes that see GL(u, C)
  std::vector<std::vector<std::int64_t>> real_;            // classes that see GL(u, R)
};

// What is left of a rotary or plain head behind a QK-norm (theory.md section 1): one positive
// number per rotary pair, moved from the gains of q to those of k, with a quarter turn of the pair
// and permutations of pairs with the same character; for each coordinate that does not rotate (or
// only changes its sign, at frequency pi) a number of its own, with signed permutations among them.
// Members are monomial: their sign pattern turns q and k, their moduli scale the gains.
class GainExchange {
 public:
  GainExchange(std::int64_t size, const std::vector<double>& frequencies);
  // R* wr S(n): where coordinates are seen one by one, behind a gate or in front of an activation.
  static GainExchange monomial(std::int64_t size) { return {size, {}}; }

  std::string name() const;
  std::int64_t size() const { return size_; }
  std::int64_t dimension() const;
  double log2_components() const;
  Matrix<double> random(Random& random) const;
  Matrix<double> project(const Matrix<double>& matrix) const;
  double violation(const Matrix<double>& matrix) const;

  // Pairs, and coordinates, that may change places among themselves.
  const std::vector<std::vector<RotaryClasses::Pair>>& turning() const { return turning_; }
  const std::vector<std::vector<std::int64_t>>& plain() const { return plain_; }

 private:
  std::int64_t size_;
  std::vector<std::vector<RotaryClasses::Pair>> turning_;  // pairs that may change places
  std::vector<std::vector<std::int64_t>> plain_;           // coordinates that may change places
};

// What each head behind a QK-norm may do by itself (docs/findings.md 3d): half a turn of a rotary
// pair, or another sign of a coordinate that does not rotate. Diagonal, and the two of a pair are
// alike.
class HalfTurns {
 public:
  // What changes its sign together.
  struct Run {
    std::int64_t first, size;
  };
  HalfTurns(std::int64_t size, const std::vector<double>& frequencies);

  std::string name() const;
  std::int64_t size() const { return size_; }
  std::int64_t dimension() const { return 0; }
  double log2_components() const { return static_cast<double>(runs_.size()); }
  Matrix<double> random(Random& random) const;
  Matrix<double> project(const Matrix<double>& matrix) const;
  double violation(const Matrix<double>& matrix) const;

  const std::vector<Run>& runs() const { return runs_; }

 private:
  std::int64_t size_;
  std::vector<Run> runs_;
};

}  // namespace regauge
