#include "regauge/arch/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr std::int64_t kTile = 32;

// visit(i, j, count): the columns [j, j + count) of row i, tile by tile, so that a transpose stays
// in the cache.
struct Tile {
  std::int64_t row, col, rows, cols;
};

template <class Visit>
void for_each_tile(std::int64_t rows, std::int64_t cols, Visit&& visit) {
  for (std::int64_t i = 0; i < rows; i += kTile) {
    for (std::int64_t j = 0; j < cols; j += kTile) {
      visit(Tile{i, j, std::min(kTile, rows - i), std::min(kTile, cols - j)});
    }
  }
}

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

const std::vector<Layout::Part>& Layout::parts(std::string_view parameter) const {
  const auto found = parts_.find(parameter);
  if (found == parts_.end()) {
    throw UsageError(fmt::format("[layout] this architecture has no parameter '{}'", parameter));
  }
  return found->second;
}

std::vector<const Layout::Stored*> Layout::holders(std::string_view parameter) const {
  std::vector<const Stored*> result;
  for (const Part& part : parts(parameter)) {
    const Stored* holder = &stored_[part.holder];
    if (result.empty() || result.back() != holder) result.push_back(holder);
  }
  return result;
}

const Layout::Stored& Layout::holder(std::string_view parameter) const {
  return stored_[parts(parameter).front().holder];
}

std::vector<std::int64_t> Layout::columns(const Part& part) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(part.cols));
  const std::int64_t run = part.cols / part.groups;
  const std::int64_t stride = part.width / part.groups;
  for (std::int64_t j = 0; j < part.cols; ++j) {
    std::int64_t at = j;
    if (part.head_width > 0) {
      const std::int64_t c = j % part.head_width;
      if (c < part.rotary_dims) at = j - c + c / 2 + (c % 2) * (part.rotary_dims / 2);
    }
    result[static_cast<std::size_t>(j)] = at / run * stride + part.begin + at % run;
  }
  return result;
}

std::vector<Layout::Piece> Layout::pieces(std::string_view parameter) const {
  std::vector<Piece> result;
  for (const Part& p : parts(parameter)) {
    result.push_back({stored_[p.holder].name,
                      p.row,
                      p.col,
                      p.rows,
                      p.cols,
                      {p.transposed, p.transposed ? p.rows : p.width, p.offset, columns(p)}});
  }
  return result;
}

template <class Scalar>
Matrix<Scalar> Layout::extract(std::string_view parameter, const Values<Scalar>& values) const {
  Matrix<Scalar> value = arrange(parameter, values);
  const double offset = parts(parameter).front().offset;
  if (offset != 0) value.array() += static_cast<Scalar>(offset);
  return value;
}

template <class Scalar>
Matrix<Scalar> Layout::arrange(std::string_view parameter, const Values<Scalar>& values) const {
  const std::vector<Part>& all = parts(parameter);
  const Part& last = all.back();
  Matrix<Scalar> value(last.row + last.rows, last.col + last.cols);
  if (all.size() == 1 && last.is_plain() && elements(stored_[last.holder].shape) == value.size()) {
    values(stored_[last.holder], std::span(value.data(), static_cast<std::size_t>(value.size())));
    return value;
  }
  const Stored* holder = nullptr;
  std::vector<Scalar> stored;
  for (const Part& part : all) {
    if (holder != &stored_[part.holder]) {
      holder = &stored_[part.holder];
      stored.resize(static_cast<std::size_t>(elements(holder->shape)));
      values(*holder, stored);
    }
    take<Scalar>(part, stored, value);
  }
  return value;
}

template <class Scalar>
void Layout::take(const Part& p, std::span<const Scalar> stored, Matrix<Scalar>& value) {
  if (p.is_plain() && p.rows == value.rows() && p.cols == value.cols()) {
    std::copy_n(stored.begin() + p.begin, value.size(), value.data());
    return;
  }
  const std::vector<std::int64_t> column = columns(p);
  std::array<Scalar, kTile * kTile> buffer;
  for_each_tile(p.rows, p.cols, [&](const Tile& tile) {
    for (std::int64_t j = 0; j < tile.cols; ++j) {
      const std::int64_t at = column[static_cast<std::size_t>(tile.col + j)];
      const Scalar* from =
          stored.data() + (p.transposed ? at * p.rows + tile.row : tile.row * p.width + at);
      const std::int64_t step = p.transposed ? 1 : p.width;
      for (std::int64_t i = 0; i < tile.rows; ++i) {
        buffer[static_cast<std::size_t>(i * kTile + j)] = from[i * step];
      }
    }
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      std::copy_n(buffer.data() + i * kTile, tile.cols,
                  value.data() + (p.row + tile.row + i) * value.cols() + p.col + tile.col);
    }
  });
}

template <class Scalar>
void Layout::insert(std::string_view parameter, const Matrix<Scalar>& value, const Stored& holder,
                    std::span<Scalar> stored) const {
  const std::vector<Part>& all = parts(parameter);
  if (static_cast<std::int64_t>(stored.size()) != elements(holder.shape)) {
    throw UsageError(fmt::format("[layout] the tensor that holds '{}' has {} elements; got {}",
                                 parameter, elements(holder.shape), stored.size()));
  }
  const std::int64_t rows = all.back().row + all.back().rows,
                     cols = all.back().col + all.back().cols;
  if (value.rows() != rows || value.cols() != cols) {
    throw UsageError(fmt::format("[layout] '{}' is {} x {}; got {} x {}", parameter, rows, cols,
                                 value.rows(), value.cols()));
  }
  for (const Part& p : all) {
    if (stored_[p.holder].name != holder.name) continue;
    if (p.is_plain() && p.rows == rows && p.cols == cols) {
      std::copy_n(value.data(), value.size(), stored.begin() + p.begin);
      return;
    }
    const std::vector<std::int64_t> column = columns(p);
    const auto offset = static_cast<Scalar>(p.offset);
    std::array<Scalar, kTile * kTile> buffer;
    for_each_tile(p.rows, p.cols, [&](const Tile& tile) {
      for (std::int64_t i = 0; i < tile.rows; ++i) {
        std::copy_n(value.data() + (p.row + tile.row + i) * cols + p.col + tile.col, tile.cols,
                    buffer.data() + i * kTile);
      }
      for (std::int64_t j = 0; j < tile.cols; ++j) {
        const std::int64_t at = column[static_cast<std::size_t>(tile.col + j)];
        Scalar* to =
            stored.data() + (p.transposed ? at * p.rows + tile.row : tile.row * p.width + at);
        const std::int64_t step = p.transposed ? 1 : p.width;
        for (std::int64_t i = 0; i < tile.rows; ++i) {
          const Scalar element = buffer[static_cast<std::size_t>(i * kTile + j)];
          to[i * step] = p.offset == 0 ? element : element - offset;
        }
      }
    });
  }
}

template Matrix<float> Layout::extract(std::string_view, const Values<float>&) const;
template Matrix<double> Layout::extract(std::string_view, const Values<double>&) const;
template Matrix<float> Layout::arrange(std::string_view, const Values<float>&) const;
template Matrix<double> Layout::arrange(std::string_view, const Values<double>&) const;
template void Layout::insert(std::string_view, const Matrix<float>&, const Stored&,
                             std::span<float>) const;
template void Layout::insert(std::string_view, const Matrix<double>&, const Stored&,
                             std::span<double>) const;

}  // namespace regauge
