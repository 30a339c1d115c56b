#pragma once

#include <memory>

#include "regauge/arch/parameter_source.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// A pair in which B certainly is A, stored as the given files are. How well an element can be read
// off two files depends on the element and on how they are stored; what is found of an honest pair
// says how well. All that is given must outlive it. What was made of it is held up to 2^25 numbers
// of each model; of a larger one a layer is in memory at a time.
class HonestCopy {
 public:
  // Draw 0: B is A as the inverse of the element moves it, rounded to nearest on the grid of B's
  // file. Draw 1: A is the moved B, likewise. Later draws: A and the moved A, each with errors as
  // rounding makes them on a grid that lies a little beside that of its file.
  HonestCopy(const Symmetry& symmetry, const Element& a_from_b, const ParameterSource& a,
             const ParameterSource& b, int draw);

  const ParameterSource& a() const { return a_; }
  const ParameterSource& b() const { return b_; }

 private:
  ParameterSource a_, b_;
};

}  // namespace regauge
