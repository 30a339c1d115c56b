#pragma once

#include <functional>

#include "regauge/action/plan.h"
#include "regauge/arch/parameter_source.h"
#include "regauge/arch/parameters.h"

namespace regauge {

// Says of a matrix whether it is to be moved; nothing: all are.
using Wanted = std::function<bool(const std::string& matrix)>;

// A model as an element moves it, a layer at a time. The symmetry must outlive it.
class MovedModel {
 public:
  MovedModel(ReadTensor read, const Symmetry& symmetry, Element element);
  MovedModel(const ParameterSource& source, const Symmetry& symmetry, Element element)
      : MovedModel(source.reader(), symmetry, std::move(element)) {}

  const Element& element() const { return element_; }
  // The canonical tensors of a layer; of embedding and head for -1. Its vectors, and the matrices
  // that are wanted.
  template <class Scalar = double>
  Parameters<Scalar> layer(std::int64_t layer, const Wanted& wanted = {}) const;

 protected:
  const Symmetry& symmetry() const { return symmetry_; }
  // The steps of a layer.
  LayerPlan plan_of(std::int64_t layer) const;

 private:
  ReadTensor read_;
  const Symmetry& symmetry_;
  Element element_;
};

// One such layer at its own cost: the element's shapes are taken as checked.
template <class Scalar = double>
Parameters<Scalar> moved_layer(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                               const ReadTensor& read, const Wanted& wanted = {});

// The element on one layer's tensors in memory, in place; its shapes are taken as checked. Throws
// UsageError if it needs a norm of another layer, or a matrix that is not there.
template <class Scalar>
void act_on_layer(const Symmetry& symmetry, const Element& element, std::int64_t layer,
                  Parameters<Scalar>& parameters);

}  // namespace regauge
