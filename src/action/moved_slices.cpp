#include "moved_slices.h"

namespace regauge {

template <class Scalar>
MovedSlices<Scalar>::MovedSlices(const ParameterSource& source, const TensorPlan& tensor,
                                 std::int64_t slices, Executor& executor)
    : source_(source),
      spec_(tensor.spec),
      slices_(slices),
      numbers_(std::make_unique<const StoredMatrix<Scalar>>(source, tensor.spec)),
      moved_(
          spec_.rows, spec_.cols,
          [numbers = numbers_.get()](const Matrix<Scalar>& x) { return numbers->left(x); },
          [numbers = numbers_.get()](const Matrix<Scalar>& y) { return numbers->right(y); }) {
  executor.transform(tensor, moved_);
}

template <class Scalar>
Matrix<Scalar> MovedSlices<Scalar>::read(std::int64_t slice) const {
  const int axis = spec_.sliced_rows ? 0 : 1;
  const std::int64_t from = moved_.source_of(axis, slices_, slice);
  Matrix<Scalar> value = source_.read<Scalar>(spec_.name, from);
  moved_.replay_slice(axis, slices_, from, value);
  return value;
}

template class MovedSlices<float>;
template class MovedSlices<double>;

}  // namespace regauge
