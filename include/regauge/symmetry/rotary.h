#pragma once

#include <vector>

#include "regauge/symmetry/matrix_group.h"

namespace regauge {

// The invertible matrices that commute with every rotation R_t = rot(t f_0) + rot(t f_1) + ... + 1
// of a rotary head, t an integer (theory.md section 1). Pair b is (2b, 2b+1); the coordinates after
// the pairs do not rotate. Pairs with the same character form a class of multiplicity u: GL(u, C);
// frequencies that are multiples of 2 pi join the un-rotated coordinates, GL(u0, R); at pi, GL(2u,
// R). Characters f and -f are one class, with the second coordinate reversed.
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

 private:
  struct Pair {
    std::int64_t first;  // coordinate of the pair's first member
    double sign;         // -1: the second coordinate counts reversed
  };
  std::int64_t size_;
  std::vector<std::vector<Pair>> complex_;       // classes that see GL(u, C)
  std::vector<std::vector<std::int64_t>> real_;  // coordinates of each class that sees GL(u, R)
};

// What is left of a rotary or plain head behind a QK-norm (theory.md section 1): one positive
// number per rotary pair, moved from the gains of q to those of k, with a quarter turn of the pair;
// for each coordinate that does not rotate (or only changes its sign, at frequency pi) a number of
// its own, with signed permutations among them. Members are monomial: their sign pattern turns q
// and k, their moduli scale the gains.
class GainExchange {
 public:
  GainExchange(std::int64_t size, const std::vector<double>& frequencies);

  std::string name() const;
  std::int64_t size() const { return size_; }
  std::int64_t dimension() const;
  double log2_components() const;
  Matrix<double> random(Random& random) const;
  Matrix<double> project(const Matrix<double>& matrix) const;
  double violation(const Matrix<double>& matrix) const;

 private:
  std::int64_t size_;
  std::vector<std::int64_t> pairs_;               // first coordinates of the pairs that turn
  std::vector<std::vector<std::int64_t>> plain_;  // coordinates that may change places
};

}  // namespace regauge
