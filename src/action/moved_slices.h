#pragma once

#include <memory>

#include "executor.h"
#include "regauge/arch/parameter_source.h"

namespace regauge {

// A matrix of a checkpoint as an element moves it, one slice (expert) in memory.
template <class Scalar>
class MovedSlices {
 public:
  // The executor has begun the tensor's layer and goes on with no other before this is done with;
  // the source has the tensor in `slices`. Constants that the matrix gives up go to the executor.
  MovedSlices(const ParameterSource& source, const TensorPlan& tensor, std::int64_t slices,
              Executor& executor);

  // What stands in this place afterwards.
  Matrix<Scalar> read(std::int64_t slice) const;

 private:
  const ParameterSource& source_;
  ParameterSpec spec_;
  std::int64_t slices_;
  std::unique_ptr<const StoredMatrix<Scalar>> numbers_;
  MovedMatrix<Scalar> moved_;
};

}  // namespace regauge
