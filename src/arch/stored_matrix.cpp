#include <algorithm>
#include <numeric>

#include "base/blas.h"
#include "io/rounding.h"
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
    : rows_(spec.rows), cols_(spec.cols), of_(of), share_(static_cast<Scalar>(share)) {
  const auto pieces = source.pieces(spec.name);
  const StoredTensor* tensor = source.stored(spec.name);
  // What lies in several pieces, or behind rows that only padding reads, is taken as numbers.
  const auto in_one_piece = [&](const Layout::Place& place) {
    return place.transposed || place.columns.empty() || place.columns[0] < place.stride;
  };
  if (pieces.size() == 1 && in_one_piece(pieces.front().place) &&
      pieces.front().place.stride % block_elements(tensor->dtype) == 0) {
    checkpoint_ = &source.model().checkpoint;
    tensor_ = tensor;
    place_ = pieces.front().place;
    place_.columns.resize(static_cast<std::size_t>(cols_));
    if (of_ != Of::numbers) place_.offset = 0;
    return;
  }
  if (of_ == Of::below || of_ == Of::above) {
    const auto bounds = source.bounds(spec.name);
    numbers_ = (of_ == Of::below ? bounds.below : bounds.above).template cast<Scalar>();
  } else {
    numbers_ = source.read<Scalar>(spec.name);
  }
  if (of_ == Of::variances) {
    numbers_ = source.variances<Scalar>(spec.name) + share_ * numbers_.cwiseAbs2();
  }
  place_.stride = cols_;
  place_.columns.resize(static_cast<std::size_t>(cols_));
  std::iota(place_.columns.begin(), place_.columns.end(), 0);
}

// visit(first, count, numbers): the stored rows [first, first + count) that hold the matrix.
template <class Scalar>
template <class Visit>
void StoredMatrix<Scalar>::for_each_piece(Visit visit) const {
  if (tensor_ == nullptr) return visit(std::int64_t{0}, rows_, numbers_.data());
  const std::int64_t stride = place_.stride;
  std::int64_t first = 0, last = rows_;
  if (place_.transposed) {
    const auto [lowest, highest] =
        std::minmax_element(place_.columns.begin(), place_.columns.end());
    first = *lowest;
    last = *highest + 1;
  }
  const std::int64_t piece = std::max<std::int64_t>(1, kDecoded / stride);
  std::vector<Scalar> numbers(static_cast<std::size_t>(std::min(piece, last - first) * stride));
  for (; first < last; first += piece) {
    const std::int64_t count = std::min(piece, last - first);
    decode_rows(first, count, std::span(numbers).first(static_cast<std::size_t>(count * stride)));
    visit(first, count, numbers.data());
  }
  checkpoint_->release(*tensor_);
}

// Stored rows, in their own order.
template <class Scalar>
void StoredMatrix<Scalar>::decode_rows(std::int64_t first, std::int64_t count,
                                       std::span<Scalar> numbers) const {
  const DType type = tensor_->dtype;
  const std::int64_t row_bytes = place_.stride / block_elements(type) * block_bytes(type);
  const auto bytes = checkpoint_->bytes(*tensor_).subspan(
      static_cast<std::size_t>(first * row_bytes), static_cast<std::size_t>(count * row_bytes));
  if (of_ == Of::numbers) return decode<Scalar>(type, bytes, numbers);
  if (of_ == Of::variances) {
    if (share_ == 0) return rounding_variances<Scalar>(type, bytes, numbers);
    std::vector<Scalar> variances(numbers.size());
    rounding_variances<Scalar>(type, bytes, variances);
    decode<Scalar>(type, bytes, numbers);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = variances[i] + share_ * numbers[i] * numbers[i];
    }
    return;
  }
  std::vector<double> values(numbers.size()), below(numbers.size()), above(numbers.size());
  decode<double>(type, bytes, values);
  rounding_bounds(type, bytes, values, below, above);
  std::ranges::transform(of_ == Of::below ? below : above, numbers.begin(),
                         [](double bound) { return static_cast<Scalar>(bound); });
}

template <class Scalar>
Matrix<Scalar> StoredMatrix<Scalar>::left(const Matrix<Scalar>& x) const {
  const std::int64_t k = x.rows(), stride = place_.stride;
  const auto& columns = place_.columns;
  const std::int64_t width = holder_width(place_);
  Matrix<Scalar> stored = Matrix<Scalar>::Zero(k, width);  // by the holder's columns
  for_each_piece([&](std::int64_t first, std::int64_t count, const Scalar* numbers) {
    if (place_.transposed) {
      gemm<Scalar>(false, true, k, count, rows_, 1, x.data(), rows_, numbers, stride, 0,
                   stored.data() + first, width);
    } else {
      gemm<Scalar>(false, false, k, stride, count, 1, x.data() + first, rows_, numbers, stride, 1,
                   stored.data(), width);
    }
  });
  Matrix<Scalar> result(k, cols_);
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t j = 0; j < cols_; ++j) {
      result(i, j) = stored(i, columns[static_cast<std::size_t>(j)]);
    }
  }
  if (place_.offset != 0) {
    result.colwise() += static_cast<Scalar>(place_.offset) * x.rowwise().sum();
  }
  return result;
}

template <class Scalar>
Matrix<Scalar> StoredMatrix<Scalar>::right(const Matrix<Scalar>& y) const {
  const std::int64_t k = y.cols(), stride = place_.stride;
  const auto& columns = place_.columns;
  const std::int64_t width = holder_width(place_);
  Matrix<Scalar> stored = Matrix<Scalar>::Zero(width, k);  // by the holder's columns
  for (std::int64_t j = 0; j < cols_; ++j) {
    stored.row(columns[static_cast<std::size_t>(j)]) = y.row(j);
  }
  Matrix<Scalar> result = Matrix<Scalar>::Zero(rows_, k);
  for_each_piece([&](std::int64_t first, std::int64_t count, const Scalar* numbers) {
    if (place_.transposed) {
      gemm<Scalar>(true, false, rows_, k, count, 1, numbers, stride, stored.data() + first * k, k,
                   1, result.data(), k);
    } else {
      gemm<Scalar>(false, false, count, k, stride, 1, numbers, stride, stored.data(), k, 0,
                   result.data() + first * k, k);
    }
  });
  if (place_.offset != 0) {
    result.rowwise() += static_cast<Scalar>(place_.offset) * y.colwise().sum();
  }
  return result;
}

template <class Scalar>
Matrix<Scalar> StoredMatrix<Scalar>::vectors(std::int64_t first, std::int64_t count,
                                             std::int64_t step) const {
  const auto& columns = place_.columns;
  const std::int64_t length = place_.transposed ? rows_ : cols_;
  std::vector<Scalar> numbers(static_cast<std::size_t>(place_.stride));
  Matrix<Scalar> result(count, length);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t vector = first + i * step;
    decode_rows(place_.transposed ? columns[static_cast<std::size_t>(vector)] : vector, 1, numbers);
    for (std::int64_t j = 0; j < length; ++j) {
      const std::int64_t at = place_.transposed ? j : columns[static_cast<std::size_t>(j)];
      result(i, j) = numbers[static_cast<std::size_t>(at)];
    }
  }
  checkpoint_->release(*tensor_);
  if (place_.offset != 0) result.array() += static_cast<Scalar>(place_.offset);
  return result;
}

template class StoredMatrix<float>;
template class StoredMatrix<double>;

}  // namespace regauge
