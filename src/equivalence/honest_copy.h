#pragma once

#include <memory>

#include "regauge/action/parameter_source.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// A pair in which B certainly is A: A with noise as its type makes it, and A as the inverse of an
// element moves it with noise as B's type makes it. How well an element can be read off two files
// depends on the element and on how they are stored; what is found of an honest pair says how well.
// All that is given must outlive it; a layer is in memory at a time.
class HonestCopy {
 public:
  // Another `draw` is other noise.
  HonestCopy(const Symmetry& symmetry, const Element& a_from_b, const ParameterSource& a,
             const ParameterSource& b, int draw);

  const ParameterSource& a() const { return a_; }
  const ParameterSource& b() const { return b_; }

 private:
  class Moved;  // A in the coordinates of B

  std::shared_ptr<Moved> moved_;
  ParameterSource a_, b_;
};

}  // namespace regauge
