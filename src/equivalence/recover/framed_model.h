#pragma once

#include "action/moved_model.h"
#include "frame.h"
#include "regauge/arch/parameters.h"

namespace regauge {

// A checkpoint as an element moves it, whole or through a frame.
class FramedModel : public MovedModel {
 public:
  FramedModel(const ParameterSource& source, const Symmetry& symmetry, Element element)
      : MovedModel(source, symmetry, std::move(element)), source_(source) {}

  using MovedModel::layer;
  // Every matrix of a layer as it is seen through the frame; vectors as they are.
  Parameters<double> layer(std::int64_t layer, const Frame& frame) const;
  // Embedding and head; where vectors of the stream move one by one, only `most` of them, evenly
  // spaced.
  template <class Scalar>
  Parameters<Scalar> ends(std::int64_t most) const;

 private:
  const ParameterSource& source_;
};

}  // namespace regauge
