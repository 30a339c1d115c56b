#pragma once

#include "regauge/align/align.h"
#include "regauge/arch/parameters.h"

namespace regauge {

// Two models in memory in the form in which they are compared, where the methods that run models
// work. What these find lies between the forms; the user's element lies between the models.
class ComparablePair {
 public:
  // `a` and `b` read canonical tensors of symmetry.architecture; the symmetry must outlive this.
  ComparablePair(const Symmetry& symmetry, const ReadTensor& a, const ReadTensor& b,
                 const Scope& scope, Progress& progress, double sign_of_b = 1);

  const Parameters<double>& a() const { return a_; }
  const Parameters<double>& b() const { return b_; }
  // A relative element from an element between the models, and back.
  Element between_forms(const Element& a_from_b) const;
  Element between_models(const Element& relative) const;

 private:
  const Symmetry* symmetry_;
  Element form_a_, form_b_;
  Parameters<double> a_, b_;
};

}  // namespace regauge
