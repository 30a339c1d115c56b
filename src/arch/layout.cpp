#include "regauge/arch/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>

#include "regauge/arch/towers.h"
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

}  // namespace

const std::vector<Layout::Part>& Layout::parts(std::string_view parameter) const {
  const auto found = parts_.find(parameter);
  if (found == parts_.end()) {
    throw UsageError(fmt::format("[layout] this architecture has no parameter '{}'", parameter));
  }
  return found->second;
}

std::int64_t Layout::Stored::slice_elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()) / slices;
}

Layout::Home Layout::home(std::string_view parameter, std::int64_t slice) const {
  const Part& part = parts(parameter).at(static_cast<std::size_t>(slice));
  return {stored_[part.holder], part.slice};
}

namespace {

// Where the i-th number on an axis of value heads lies: canonical [key head, which, coordinate],
// stored [which, key head, coordinate].
std::int64_t tiled(std::int64_t i, std::int64_t heads, std::int64_t group, std::int64_t width) {
  const std::int64_t head = i / (group * width), which = i / width % group;
  return (which * heads + head) * width + i % width;
}

// Where the i-th coordinate of heads lies whose first `dims` ones are pairs, stored as halves.
std::int64_t in_halves(std::int64_t i, std::int64_t head_width, std::int64_t dims) {
  const std::int64_t c = i % head_width;
  return c < dims ? i - c + c / 2 + (c % 2) * (dims / 2) : i;
}

}  // namespace

std::vector<std::int64_t> Layout::rows(const Part& part) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(part.rows));
  std::iota(result.begin(), result.end(), 0);
  if (part.heads_in_rows) {
    for (auto& row : result) row = in_halves(row, part.head_width, part.rotary_dims);
  }
  if (part.tile_heads == 0 || !part.tiles_rows) return result;
  for (auto& row : result) row = tiled(row, part.tile_heads, part.tile_group, part.tile_width);
  return result;
}

std::vector<std::int64_t> Layout::columns(const Part& part) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(part.cols));
  const std::int64_t run = part.cols / part.groups;
  const std::int64_t stride = part.width / part.groups;
  for (std::int64_t j = 0; j < part.cols; ++j) {
    std::int64_t at = j;
    if (part.head_width > 0 && !part.heads_in_rows) {
      at = in_halves(j, part.head_width, part.rotary_dims);
    }
    if (part.tile_heads > 0 && !part.tiles_rows) {
      at = tiled(at, part.tile_heads, part.tile_group, part.tile_width);
    }
    if (part.matrices > 1) {  // each is rows x width
      result[static_cast<std::size_t>(j)] =
          at / part.width * part.rows * part.width + at % part.width;
      continue;
    }
    result[static_cast<std::size_t>(j)] = at / run * stride + part.begin + at % run;
  }
  return result;
}

std::vector<Layout::Piece> Layout::pieces(std::string_view parameter) const {
  std::vector<Piece> result;
  for (const Part& p : parts(parameter)) {
    if (!p.is_regular()) return {};
    Place place{p.transposed, p.transposed ? p.rows : p.width, p.offset, columns(p)};
    for (auto& column : place.columns)
      column += p.slice * (p.transposed ? p.width : p.rows * p.width);
    result.push_back({stored_[p.holder].name, p.row, p.col, p.rows, p.cols, std::move(place)});
  }
  return result;
}

Layout Layout::of_tower(const Tower& tower) const {
  Layout result;
  result.family_ = family_;
  result.format_ = format_;
  std::map<std::size_t, std::size_t> position;  // of a holder in the result
  for (std::size_t i = 0; i < stored_.size(); ++i) {
    Stored stored = stored_[i];
    stored.parameters.clear();
    for (const auto& parameter : stored_[i].parameters) {
      if (auto own = tower.own(parameter)) stored.parameters.push_back(std::move(*own));
    }
    if (stored.parameters.empty()) continue;
    position[i] = result.stored_.size();
    result.stored_.push_back(std::move(stored));
  }
  for (const auto& [parameter, parts] : parts_) {
    const auto own = tower.own(parameter);
    if (!own) continue;
    auto& of_tower = result.parts_[*own] = parts;
    for (Part& part : of_tower) part.holder = position.at(part.holder);
  }
  return result;
}

template <class Scalar>
Matrix<Scalar> Layout::extract(std::string_view parameter, const Values<Scalar>& values,
                               std::int64_t slice) const {
  Matrix<Scalar> value = arrange(parameter, values, slice);
  const double offset = parts(parameter).front().offset;
  if (offset != 0) value.array() += static_cast<Scalar>(offset);
  if (is_minus_exp(parameter)) value = (-value.array()).log().matrix();
  return value;
}

template <class Scalar>
Matrix<Scalar> Layout::arrange(std::string_view parameter, const Values<Scalar>& values,
                               std::int64_t slice) const {
  std::span<const Part> wanted = parts(parameter);
  if (slice != kAll) wanted = wanted.subspan(static_cast<std::size_t>(slice), 1);
  const Part &first = wanted.front(), &last = wanted.back();
  Matrix<Scalar> value(last.row + last.rows - first.row, last.col + last.cols - first.col);
  std::int64_t size = stored_[first.holder].slice_elements();
  if (wanted.size() == 1 && first.is_plain() && size == value.size()) {
    values({stored_[first.holder], first.slice},
           std::span(value.data(), static_cast<std::size_t>(size)));
    return value;
  }
  for (const Part& part : wanted) {
    size = std::max(size, stored_[part.holder].slice_elements());
  }
  const auto numbers = std::make_unique_for_overwrite<Scalar[]>(static_cast<std::size_t>(size));
  for (const Part& part : wanted) {
    const auto own = static_cast<std::size_t>(stored_[part.holder].slice_elements());
    const std::span stored(numbers.get(), own);
    values({stored_[part.holder], part.slice}, stored);
    take<Scalar>(part, stored, part.row - first.row, part.col - first.col, value);
  }
  return value;
}

template <class Scalar>
void Layout::take(const Part& p, std::span<const Scalar> stored, std::int64_t row, std::int64_t col,
                  Matrix<Scalar>& value) {
  if (p.is_plain() && p.rows == value.rows() && p.cols == value.cols()) {
    std::copy_n(stored.begin() + p.begin, value.size(), value.data());
    return;
  }
  std::vector<std::int64_t> column = columns(p);
  for (auto& at : column) at *= p.transposed ? p.rows : 1;
  const std::vector<std::int64_t> row_of = rows(p);
  for_each_tile(p.rows, p.cols, [&](const Tile& tile) {
    const std::int64_t* const at = column.data() + tile.col;
    for (std::int64_t i = tile.row; i < tile.row + tile.rows; ++i) {
      const Scalar* const from =
          stored.data() + row_of[static_cast<std::size_t>(i)] * (p.transposed ? 1 : p.width);
      Scalar* const to = value.data() + (row + i) * value.cols() + col + tile.col;
      for (std::int64_t j = 0; j < tile.cols; ++j) to[j] = from[at[j]];
    }
  });
}

template <class Scalar>
void Layout::insert(std::string_view parameter, const Matrix<Scalar>& value, const Stored& holder,
                    std::span<Scalar> stored) const {
  if (std::ssize(stored) != holder.slices * holder.slice_elements()) {
    throw UsageError(fmt::format("[layout] the tensor that holds '{}' has {} elements; got {}",
                                 parameter, holder.slices * holder.slice_elements(),
                                 stored.size()));
  }
  const auto size = static_cast<std::size_t>(holder.slice_elements());
  for (std::int64_t slice = 0; slice < slices(parameter); ++slice) {
    const Home at = home(parameter, slice);
    if (at.holder.name != holder.name) continue;
    insert_slice(parameter, slice, value,
                 stored.subspan(static_cast<std::size_t>(at.slice) * size, size));
  }
}

template <class Scalar>
void Layout::insert_slice(std::string_view parameter, std::int64_t slice,
                          const Matrix<Scalar>& value, std::span<Scalar> stored) const {
  const std::vector<Part>& all = parts(parameter);
  const Part& p = all.at(static_cast<std::size_t>(slice));
  const bool alone = value.rows() == p.rows && value.cols() == p.cols;
  const std::int64_t rows = all.back().row + all.back().rows,
                     cols = all.back().col + all.back().cols;
  if (!alone && (value.rows() != rows || value.cols() != cols)) {
    throw UsageError(fmt::format("[layout] '{}' is {} x {}; got {} x {}", parameter, rows, cols,
                                 value.rows(), value.cols()));
  }
  if (alone && p.is_plain()) {
    std::copy_n(value.data(), value.size(), stored.begin() + p.begin);
    return;
  }
  const Scalar* block = value.data() + (alone ? 0 : p.row * cols + p.col);
  const std::vector<std::int64_t> column = columns(p), row_of = Layout::rows(p);
  const auto offset = static_cast<Scalar>(p.offset);
  std::array<Scalar, kTile * kTile> buffer;
  for_each_tile(p.rows, p.cols, [&](const Tile& tile) {
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      std::copy_n(block + (tile.row + i) * value.cols() + tile.col, tile.cols,
                  buffer.data() + i * kTile);
    }
    for (std::int64_t j = 0; j < tile.cols; ++j) {
      const std::int64_t at = column[static_cast<std::size_t>(tile.col + j)];
      Scalar* to = stored.data() + (p.transposed ? at * p.rows : at);
      const std::int64_t step = p.transposed ? 1 : p.width;
      for (std::int64_t i = 0; i < tile.rows; ++i) {
        const Scalar element = buffer[static_cast<std::size_t>(i * kTile + j)];
        const Scalar shifted = p.offset == 0 ? element : element - offset;
        to[row_of[static_cast<std::size_t>(tile.row + i)] * step] =
            p.minus_exp ? -std::exp(element) : shifted;
      }
    }
  });
}

template Matrix<float> Layout::extract(std::string_view, const Values<float>&, std::int64_t) const;
template Matrix<double> Layout::extract(std::string_view, const Values<double>&,
                                        std::int64_t) const;
template Matrix<float> Layout::arrange(std::string_view, const Values<float>&, std::int64_t) const;
template Matrix<double> Layout::arrange(std::string_view, const Values<double>&,
                                        std::int64_t) const;
template void Layout::insert(std::string_view, const Matrix<float>&, const Stored&,
                             std::span<float>) const;
template void Layout::insert(std::string_view, const Matrix<double>&, const Stored&,
                             std::span<double>) const;
template void Layout::insert_slice(std::string_view, std::int64_t, const Matrix<float>&,
                                   std::span<float>) const;
template void Layout::insert_slice(std::string_view, std::int64_t, const Matrix<double>&,
                                   std::span<double>) const;

}  // namespace regauge
