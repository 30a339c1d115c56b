#include "moved_matrix.h"

#include <algorithm>

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

template <class Scalar>
MovedMatrix<Scalar> MovedMatrix<Scalar>::variances(Product left, Product right) const {
  MovedMatrix result(rows_, cols_, std::move(left), std::move(right));
  for (const auto& step : steps_) {
    if (const auto* map = std::get_if<Map>(&step)) {
      result.steps_.push_back(
          Map{std::make_shared<const BlockMap<Scalar>>(map->map->squared_part()), map->axis});
    } else if (const auto* scaled = std::get_if<Scale>(&step)) {
      result.steps_.push_back(Scale{scaled->factors.cwiseAbs2(), scaled->axis});
    }
  }
  return result;
}

template <class Scalar>
void MovedMatrix<Scalar>::replay(Thin& value) const {
  for (const auto& step : steps_) {
    if (const auto* map = std::get_if<Map>(&step)) {
      map->map->apply(value, map->axis);
    } else if (const auto* scaled = std::get_if<Scale>(&step)) {
      scaled->axis == 0 ? scale_rows(value, scaled->factors)
                        : scale_columns(value, scaled->factors);
    } else {
      const auto& outer = std::get<Outer>(step);
      value.noalias() += outer.column.transpose() * outer.row;
    }
  }
}

template <class Scalar>
std::int64_t MovedMatrix<Scalar>::replay_slice(int axis, std::int64_t slices, std::int64_t slice,
                                               Thin& value) const {
  if (slices == 1) {
    replay(value);
    return slice;
  }
  const auto size = axis == 0 ? value.rows() : value.cols();
  const auto share = [&](const Row& all, int of) -> Row {
    return of == axis ? all.segment(slice * size, size) : all;
  };
  for (const auto& step : steps_) {
    if (const auto* map = std::get_if<Map>(&step)) {
      if (map->axis == axis) {
        map->map->in_slice(slices, slice).apply(value, axis);
        slice = map->map->target_slice(slices, slice);
      } else {
        map->map->apply(value, map->axis);
      }
    } else if (const auto* scaled = std::get_if<Scale>(&step)) {
      const Row factors = share(scaled->factors, scaled->axis);
      scaled->axis == 0 ? scale_rows(value, factors) : scale_columns(value, factors);
    } else {
      const auto& outer = std::get<Outer>(step);
      value.noalias() += share(outer.column, 0).transpose() * share(outer.row, 1);
    }
  }
  return slice;
}

template <class Scalar>
std::int64_t MovedMatrix<Scalar>::source_of(int axis, std::int64_t slices,
                                            std::int64_t slice) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    const auto* map = std::get_if<Map>(&*step);
    if (map == nullptr || map->axis != axis) continue;
    const std::int64_t size = map->map->count() / slices;
    std::int64_t from = 0;
    while (map->map->target(from * size) / size != slice) ++from;
    slice = from;
  }
  return slice;
}

template <class Scalar>
MovedMatrix<double> MovedMatrix<Scalar>::bounds() const {
  MovedMatrix<double> result(rows_, cols_, {}, {});
  for (const auto& step : steps_) {
    if (const auto* map = std::get_if<Map>(&step)) {
      result.steps_.push_back(
          typename MovedMatrix<double>::Map{std::make_shared<const BlockMap<double>>(
                                                map->map->absolute_part().template cast<double>()),
                                            map->axis});
    } else if (const auto* scaled = std::get_if<Scale>(&step)) {
      result.steps_.push_back(typename MovedMatrix<double>::Scale{
          scaled->factors.cwiseAbs().template cast<double>(), scaled->axis});
    }
  }
  return result;
}

template <class Scalar>
bool MovedMatrix<Scalar>::leaves_apart(int axis) const {
  return std::none_of(steps_.begin(), steps_.end(), [&](const auto& step) {
    const auto* map = std::get_if<Map>(&step);
    return map != nullptr && map->axis == axis;
  });
}

template <class Scalar>
void MovedMatrix<Scalar>::replay(int axis, std::int64_t first, Thin& vectors) const {
  const auto count = vectors.rows();
  for (const auto& step : steps_) {
    if (const auto* map = std::get_if<Map>(&step)) {
      map->map->apply(vectors, 1);
    } else if (const auto* scaled = std::get_if<Scale>(&step)) {
      scaled->axis == axis ? scale_rows(vectors, scaled->factors.segment(first, count).eval())
                           : scale_columns(vectors, scaled->factors);
    } else {
      const auto& outer = std::get<Outer>(step);
      const Row& along = axis == 0 ? outer.column : outer.row;
      const Row& across = axis == 0 ? outer.row : outer.column;
      vectors.noalias() += along.segment(first, count).transpose() * across;
    }
  }
}
template <class Scalar>
bool MovedMatrix<Scalar>::is_monomial() const {
  return std::all_of(steps_.begin(), steps_.end(), [](const auto& step) {
    const auto* map = std::get_if<Map>(&step);
    if (map == nullptr) return false;
    return !map->map->has_blocks() ||
           (map->map->width() == 1 && map->map->blocks().cwiseAbs().isOnes(0));
  });
}

template class MovedMatrix<float>;
template class MovedMatrix<double>;

}  // namespace regauge
