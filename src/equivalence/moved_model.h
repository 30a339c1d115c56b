#pragma once

#include "frame.h"
#include "regauge/action/rewrite.h"

namespace regauge {

// A checkpoint as an element moves it, a layer at a time.
class MovedModel {
 public:
  MovedModel(const ParameterSource& source, const Symmetry& symmetry, Element element);

  const Element& element() const { return element_; }
  // The canonical tensors of a layer; of embedding and head for -1.
  template <class Scalar = double>
  Parameters<Scalar> layer(std::int64_t layer) const;
  // The same with every matrix seen through the frame; single rows as they are.
  Parameters<double> layer(std::int64_t layer, const Frame& frame) const;

 private:
  const ParameterSource& source_;
  const Symmetry& symmetry_;
  Element element_;
  Plan plan_;
};

// The same of numbers that a function gives.
Parameters<double> moved_layer(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                               const ReadTensor& read);

// The element on one layer's tensors in memory, in place. Throws UsageError if it needs a norm of
// another layer.
void act_on_layer(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                  Parameters<double>& parameters);

}  // namespace regauge
