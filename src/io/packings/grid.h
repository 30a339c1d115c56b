#pragma once

#include <cstdint>
#include <vector>

#include "regauge/io/dtype.h"

namespace regauge::io {

// The numbers that codes stand for, and what lies nearer to each than to any other.
struct Grid {
  std::vector<float> values;         // of each code
  std::vector<double> below, above;  // half the way to the neighbours, and a little for ties
  std::vector<signed char> ends;     // -1 for the least number, 1 for the largest, else 0

  // Half of the way between codes about this one, if numbers that need only a share of the range
  // had been scaled to use all of it: in units of the scale as it is.
  double needed(std::size_t code, double share) const;
  double reach() const;  // the size that codes of both signs have, or the largest of one sign

  // Codes that stand for integers in a row: what is added to a code, or to one of eight bits with a
  // sign.
  enum class Integers { none, from_first, with_sign };
  Integers integers = Integers::none;

  // `beyond` the least and the largest number a quantiser may cut off as much.
  explicit Grid(std::vector<float> values, double beyond = 0);

  static Grid unsigned_integers(int bits, double beyond = 0);
  static Grid integers_around(int bits, double beyond = 0);  // 0 is the code in the middle
  static Grid two_complement(double beyond = 0);             // of eight bits
  static Grid floats8(DType dtype);
  static Grid e2m1(double beyond);  // floats of four bits

 private:
  std::vector<std::size_t> ascending_;  // codes, one of each number
  bool is_even_ = false;                // the distances are equal
};

}  // namespace regauge::io
