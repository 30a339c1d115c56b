#pragma once

#include "regauge/arch/parameters.h"

namespace regauge {

// A loss to be lowered, as the core sees it: the lab makes one from a model and data, a Python user
// from a model of their own. pull_back turns its gradient into one on the group.
template <class Scalar>
class Objective {
 public:
  virtual ~Objective() = default;
  // The loss on the current batch; its gradient by parameter replaces *gradient unless that is
  // null.
  virtual double evaluate(const Parameters<Scalar>& parameters, Parameters<Scalar>* gradient) = 0;
  // Says where on the line (1 - t) A + t B the parameters to come are, to a loss that compares with
  // the ends.
  virtual void place(double t) { (void)t; }
  // Goes on to the next batch.
  virtual void advance() {}
};

}  // namespace regauge
