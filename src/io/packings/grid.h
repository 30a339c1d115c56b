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

  // `beyond` the least and the largest number a quantiser may cut off as much.
  explicit Grid(std::vector<float> values, double beyond = 0);

  static Grid unsigned_integers(int bits, double beyond = 0);
  static Grid integers_around(int bits, double beyond = 0);  // 0 is the code in the middle
  static Grid two_complement(double beyond = 0);             // of eight bits
  static Grid floats8(DType dtype);
  static Grid e2m1(double beyond);  // floats of four bits
};

}  // namespace regauge::io
