#include "regauge/action/moved_matrix.h"

namespace regauge {
namespace {

template <class Scalar, class Row>
void scale_rows(Matrix<Scalar>& thin, const Row& factors) {
  thin.array().colwise() *= factors.transpose().array();
}
template <class Scalar, class Row>
void scale_columns(Matrix<Scalar>& thin, const Row& factors) {
  thin.array().rowwise() *= factors.array();
}

}  // namespace

template <class Scalar>
Matrix<Scalar> MovedMatrix<Scalar>::left(Thin x, std::size_t count) const {
  if (count == 0) return left_(x);
  const auto& step = steps_[count - 1];
  if (const auto* outer = std::get_if<Outer>(&step)) {
    const Thin along = x * outer->column.transpose();
    Thin result = left(std::move(x), count - 1);
    result.noalias() += along * outer->row;
    return result;
  }
  const auto* map = std::get_if<Map>(&step);
  const auto* scaled = std::get_if<Scale>(&step);
  const int axis = map != nullptr ? map->axis : scaled->axis;
  if (axis == 0) {
    if (map != nullptr) {
      map->map->apply_transposed(x, 1);
    } else {
      scale_columns(x, scaled->factors);
    }
    return left(std::move(x), count - 1);
  }
  Thin result = left(std::move(x), count - 1);
  if (map != nullptr) {
    map->map->apply(result, 1);
  } else {
    scale_columns(result, scaled->factors);
  }
  return result;
}

template <class Scalar>
Matrix<Scalar> MovedMatrix<Scalar>::right(Thin y, std::size_t count) const {
  if (count == 0) return right_(y);
  const auto& step = steps_[count - 1];
  if (const auto* outer = std::get_if<Outer>(&step)) {
    const Thin along = outer->row * y;
    Thin result = right(std::move(y), count - 1);
    result.noalias() += outer->column.transpose() * along;
    return result;
  }
  const auto* map = std::get_if<Map>(&step);
  const auto* scaled = std::get_if<Scale>(&step);
  const int axis = map != nullptr ? map->axis : scaled->axis;
  if (axis == 1) {
    if (map != nullptr) {
      map->map->apply_transposed(y, 0);
    } else {
      scale_rows(y, scaled->factors);
    }
    return right(std::move(y), count - 1);
  }
  Thin result = right(std::move(y), count - 1);
  if (map != nullptr) {
    map->map->apply(result, 0);
  } else {
    scale_rows(result, scaled->factors);
  }
  return result;
}

template class MovedMatrix<float>;
template class MovedMatrix<double>;

}  // namespace regauge
