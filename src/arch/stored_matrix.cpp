#include <algorithm>
#include <numeric>

#include "base/blas.h"
#include "regauge/arch/parameter_source.h"

namespace regauge {
namespace {

constexpr std::int64_t kDecoded = 1 << 16;  // numbers decoded at a time: few enough for the cache

// Columns of the holder, as far as the parameter reaches.
std::int64_t holder_width(const Layout::Place& place) {
  if (!place.transposed) return place.stride;
  return 1 + *std::max_element(place.columns.begin(), place.columns.end());
}

}  // namespace

template <class Scalar>
StoredMatrix<Scalar>::StoredMatrix(const ParameterSource& source, const ParameterSpec& spec, Of of,
                                   double share)
    : rows_(spec.rows),
      cols_(spec.cols),
      of_(of),
      share_(static_cast<Scalar>(share)),
      source_(source),
      checkpoint_(&source.model().checkpoint),
      name_(spec.name) {
  for (Layout::Piece& piece : source.pieces(spec.name)) {
    const StoredTensor& tensor = checkpoint_->at(piece.holder);
    Slice& slice =
        slices_.emplace_back(Slice{&tensor, piece.row, piece.col, std::min(piece.rows, rows_),
                                   std::min(piece.cols, cols_), 0, std::move(piece.place)});
    if (of_ != Of::numbers) slice.place.offset = 0;
    slice.place.columns.resize(static_cast<std::size_t>(slice.cols));
    auto& columns = slice.place.columns;
    if (!columns.empty()) {
      const std::int64_t row = slice.place.transposed ? 1 : slice.place.stride;
      slice.first = *std::min_element(columns.begin(), columns.end()) / row;
      for (auto& column : columns) column -= slice.first * row;
    }
    // What is not made of whole blocks is taken as numbers.
    if (slice.place.stride % block_elements(tensor.dtype) != 0) {
      slices_.clear();
      break;
    }
  }
  if (!slices_.empty()) return;
  const std::int64_t count = source.slices(spec.name);
  for (std::int64_t i = 0; i < count; ++i) {
    Slice slice{.rows = rows_, .cols = cols_};
    (spec.sliced_rows ? slice.rows : slice.cols) /= count;
    (spec.sliced_rows ? slice.row : slice.col) = i * (spec.sliced_rows ? slice.rows : slice.cols);
    slice.first = i;
    slice.place.stride = slice.cols;
    slice.place.columns.resize(static_cast<std::size_t>(slice.cols));
    std::iota(slice.place.columns.begin(), slice.place.columns.end(), 0);
    slices_.push_back(std::move(slice));
  }
  if (count == 1) numbers_ = made(ParameterSource::kAll);
}

template <class Scalar>
Matrix<Scalar> StoredMatrix<Scalar>::made(std::int64_t slice) const {
  if (of_ == Of::below || of_ == Of::above) {
    const auto bounds = source_.bounds(name_, slice);
    return (of_ == Of::below ? bounds.below : bounds.above).template cast<Scalar>();
  }
  const Matrix<Scalar> numbers = source_.read<Scalar>(name_, slice);
  if (of_ == Of::numbers) return numbers;
  return source_.variances<Scalar>(name_, slice) + share_ * numbers.cwiseAbs2();
}

// visit(first, count, numbers): the stored rows [first, first + count) that hold the slice.
template <class Scalar>
template <class Visit>
void StoredMatrix<Scalar>::for_each_piece(const Slice& slice, Visit visit) const {
  if (slice.tensor == nullptr) {
    const Matrix<Scalar> alone = slices_.size() == 1 ? Matrix<Scalar>() : made(slice.first);
    return visit(std::int64_t{0}, slice.rows, slices_.size() == 1 ? numbers_.data() : alone.data());
  }
  const Layout::Place& place = slice.place;
  const std::int64_t stride = place.stride;
  std::int64_t first = 0;
  const std::int64_t last = place.transposed ? holder_width(place) : slice.rows;
  const std::int64_t piece = std::max<std::int64_t>(1, kDecoded / stride);
  std::vector<Scalar> numbers(static_cast<std::size_t>(std::min(piece, last - first) * stride));
  for (; first < last; first += piece) {
    const std::int64_t count = std::min(piece, last - first);
    decode_rows(slice, first, count,
                std::span(numbers).first(static_cast<std::size_t>(count * stride)));
    visit(first, count, numbers.data());
  }
  checkpoint_->release(*slice.tensor);
}

// Stored rows, in their own order.
template <class Scalar>
void StoredMatrix<Scalar>::decode_rows(const Slice& slice, std::int64_t first, std::int64_t count,
                                       std::span<Scalar> numbers) const {
  const std::int64_t stride = slice.place.stride;
  const Numbers stored =
      checkpoint_->numbers(*slice.tensor).range((slice.first + first) * stride, count * stride);
  if (of_ == Of::numbers) return stored.decode<Scalar>(numbers);
  if (of_ == Of::variances) {
    if (share_ == 0) return stored.rounding_variances<Scalar>(numbers);
    std::vector<Scalar> variances(numbers.size());
    stored.rounding_variances<Scalar>(variances);
    stored.decode<Scalar>(numbers);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = variances[i] + share_ * numbers[i] * numbers[i];
    }
    return;
  }
  std::vector<double> values(numbers.size()), below(numbers.size()), above(numbers.size());
  stored.decode<double>(values);
  stored.rounding_bounds(values, below, above);
  std::ranges::transform(of_ == Of::below ? below : above, numbers.begin(),
                         [](double bound) { return static_cast<Scalar>(bound); });
}

template <class Scalar>
Matrix<Scalar> StoredMatrix<Scalar>::left(const Matrix<Scalar>& x) const {
  if (slices_.size() == 1) return left(slices_.front(), x);
  Matrix<Scalar> result = Matrix<Scalar>::Zero(x.rows(), cols_);
  for (const Slice& slice : slices_) {
    result.middleCols(slice.col, slice.cols) += left(slice, x.middleCols(slice.row, slice.rows));
  }
  return result;
}

template <class Scalar>
Matrix<Scalar> StoredMatrix<Scalar>::right(const Matrix<Scalar>& y) const {
  if (slices_.size() == 1) return right(slices_.front(), y);
  Matrix<Scalar> result = Matrix<Scalar>::Zero(rows_, y.cols());
  for (const Slice& slice : slices_) {
    result.middleRows(slice.row, slice.rows) += right(slice, y.middleRows(slice.col, slice.cols));
  }
  return result;
}

template <class Scalar>
Matrix<Scalar> StoredMatrix<Scalar>::left(const Slice& slice, const Matrix<Scalar>& x) const {
  const Layout::Place& place = slice.place;
  const std::int64_t k = x.rows(), stride = place.stride;
  const auto& columns = place.columns;
  const std::int64_t width = holder_width(place);
  Matrix<Scalar> stored = Matrix<Scalar>::Zero(k, width);  // by the holder's columns
  for_each_piece(slice, [&](std::int64_t first, std::int64_t count, const Scalar* numbers) {
    if (place.transposed) {
      gemm<Scalar>(false, true, k, count, slice.rows, 1, x.data(), slice.rows, numbers, stride, 0,
                   stored.data() + first, width);
    } else {
      gemm<Scalar>(false, false, k, stride, count, 1, x.data() + first, slice.rows, numbers, stride,
                   1, stored.data(), width);
    }
  });
  Matrix<Scalar> result(k, slice.cols);
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t j = 0; j < slice.cols; ++j) {
      result(i, j) = stored(i, columns[static_cast<std::size_t>(j)]);
    }
  }
  if (place.offset != 0) {
    result.colwise() += static_cast<Scalar>(place.offset) * x.rowwise().sum();
  }
  return result;
}

template <class Scalar>
Matrix<Scalar> StoredMatrix<Scalar>::right(const Slice& slice, const Matrix<Scalar>& y) const {
  const Layout::Place& place = slice.place;
  const std::int64_t k = y.cols(), stride = place.stride;
  const auto& columns = place.columns;
  const std::int64_t width = holder_width(place);
  Matrix<Scalar> stored = Matrix<Scalar>::Zero(width, k);  // by the holder's columns
  for (std::int64_t j = 0; j < slice.cols; ++j) {
    stored.row(columns[static_cast<std::size_t>(j)]) = y.row(j);
  }
  Matrix<Scalar> result = Matrix<Scalar>::Zero(slice.rows, k);
  for_each_piece(slice, [&](std::int64_t first, std::int64_t count, const Scalar* numbers) {
    if (place.transposed) {
      gemm<Scalar>(true, false, slice.rows, k, count, 1, numbers, stride, stored.data() + first * k,
                   k, 1, result.data(), k);
    } else {
      gemm<Scalar>(false, false, count, k, stride, 1, numbers, stride, stored.data(), k, 0,
                   result.data() + first * k, k);
    }
  });
  if (place.offset != 0) {
    result.rowwise() += static_cast<Scalar>(place.offset) * y.colwise().sum();
  }
  return result;
}

template <class Scalar>
bool StoredMatrix<Scalar>::lies_along(int axis) const {
  return std::all_of(slices_.begin(), slices_.end(), [&](const Slice& slice) {
    const bool along = axis == 0 ? slice.cols == cols_ : slice.rows == rows_;
    return slice.tensor != nullptr && slice.place.transposed == (axis == 1) && along;
  });
}

template <class Scalar>
Matrix<Scalar> StoredMatrix<Scalar>::vectors(std::int64_t first, std::int64_t count,
                                             std::int64_t step) const {
  const bool transposed = slices_.front().place.transposed;
  const std::int64_t length = transposed ? rows_ : cols_;
  const std::int64_t in_slice = transposed ? slices_.front().cols : slices_.front().rows;
  std::vector<Scalar> numbers(static_cast<std::size_t>(slices_.front().place.stride));
  Matrix<Scalar> result(count, length);
  const StoredTensor* tensor = nullptr;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t vector = first + i * step;
    const Slice& slice = slices_[static_cast<std::size_t>(vector / in_slice)];
    const auto& columns = slice.place.columns;
    const std::int64_t inside = vector % in_slice;
    if (tensor != nullptr && tensor != slice.tensor) checkpoint_->release(*tensor);
    tensor = slice.tensor;
    decode_rows(slice, transposed ? columns[static_cast<std::size_t>(inside)] : inside, 1, numbers);
    for (std::int64_t j = 0; j < length; ++j) {
      const std::int64_t at = transposed ? j : columns[static_cast<std::size_t>(j)];
      result(i, j) = numbers[static_cast<std::size_t>(at)];
    }
  }
  if (tensor != nullptr) checkpoint_->release(*tensor);
  const double offset = slices_.front().place.offset;
  if (offset != 0) result.array() += static_cast<Scalar>(offset);
  return result;
}

template class StoredMatrix<float>;
template class StoredMatrix<double>;

}  // namespace regauge
