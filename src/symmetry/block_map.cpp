#include "regauge/symmetry/block_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/blas.h"
#include "numerics/decompositions.h"
#include "numerics/dense.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

bool is_identity_permutation(const std::vector<std::int64_t>& permutation) {
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

}  // namespace

template <class Scalar>
BlockMap<Scalar>::BlockMap(std::int64_t count, std::int64_t width,
                           std::vector<std::int64_t> permutation, Matrix<Scalar> blocks)
    : count_(count),
      width_(width),
      permutation_(std::move(permutation)),
      blocks_(std::move(blocks)) {
  if (permutes() && static_cast<std::int64_t>(permutation_.size()) != count) {
    throw UsageError(
        fmt::format("[block map] a permutation of {} for {} blocks", permutation_.size(), count));
  }
  if (has_blocks() && (blocks_.rows() != size() || blocks_.cols() != width)) {
    throw UsageError(fmt::format("[block map] blocks are {} x {}; expected {} x {}", blocks_.rows(),
                                 blocks_.cols(), size(), width));
  }
  if (permutes()) {
    std::vector<bool> seen(permutation_.size());
    for (const auto place : permutation_) {
      if (place < 0 || place >= count || seen[static_cast<std::size_t>(place)]) {
        throw UsageError("[block map] not a permutation");
      }
      seen[static_cast<std::size_t>(place)] = true;
    }
    if (is_identity_permutation(permutation_)) permutation_.clear();
  }
}

template <class Scalar>
Matrix<Scalar> BlockMap<Scalar>::block(std::int64_t i) const {
  if (!has_blocks()) return Matrix<Scalar>::Identity(width_, width_);
  return blocks_.middleRows(i * width_, width_);
}

template <class Scalar>
BlockMap<Scalar> BlockMap<Scalar>::operator*(const BlockMap& first) const {
  if (count_ != first.count_ || width_ != first.width_) {
    throw UsageError(fmt::format("[block map] cannot compose {} blocks of {} with {} of {}", count_,
                                 width_, first.count_, first.width_));
  }
  std::vector<std::int64_t> permutation;
  if (permutes() || first.permutes()) {
    permutation.resize(static_cast<std::size_t>(count_));
    for (std::int64_t i = 0; i < count_; ++i) {
      permutation[static_cast<std::size_t>(i)] = target(first.target(i));
    }
  }
  Matrix<Scalar> blocks;
  if (has_blocks() || first.has_blocks()) {
    blocks.resize(size(), width_);
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::int64_t second = first.target(i);
      blocks.middleRows(i * width_, width_) = !first.has_blocks() ? block(second)
                                              : !has_blocks()
                                                  ? first.block(i)
                                                  : product(first.block(i), block(second));
    }
  }
  return {count_, width_, std::move(permutation), std::move(blocks)};
}

template <class Scalar>
template <class Change>
BlockMap<Scalar> BlockMap<Scalar>::backwards(Change change) const {
  std::vector<std::int64_t> permutation;
  if (permutes()) {
    permutation.resize(static_cast<std::size_t>(count_));
    for (std::int64_t i = 0; i < count_; ++i) {
      permutation[static_cast<std::size_t>(target(i))] = i;
    }
  }
  Matrix<Scalar> blocks;
  if (has_blocks()) {
    blocks.resize(size(), width_);
    for (std::int64_t i = 0; i < count_; ++i) {
      blocks.middleRows(target(i) * width_, width_) = change(block(i));
    }
  }
  return {count_, width_, std::move(permutation), std::move(blocks)};
}

template <class Scalar>
BlockMap<Scalar> BlockMap<Scalar>::inverse() const {
  return backwards([](const Matrix<Scalar>& block) -> Matrix<Scalar> {
    return block.rows() == 1
               ? Matrix<Scalar>(block.cwiseInverse())
               : regauge::inverse(block.template cast<double>()).template cast<Scalar>();
  });
}

template <class Scalar>
BlockMap<Scalar> BlockMap<Scalar>::transpose() const {
  return backwards([](const Matrix<Scalar>& block) -> Matrix<Scalar> { return block.transpose(); });
}

template <class Scalar>
BlockMap<Scalar> BlockMap<Scalar>::absolute_part() const {
  return {count_, width_, permutation_, blocks_.cwiseAbs()};
}

template <class Scalar>
BlockMap<Scalar> BlockMap<Scalar>::squared_part() const {
  return {count_, width_, permutation_, blocks_.cwiseAbs2()};
}

template <class Scalar>
BlockMap<Scalar> BlockMap<Scalar>::sign_part() const {
  return {count_, width_, permutation_, blocks_.cwiseSign()};
}

template <class Scalar>
BlockMap<Scalar> BlockMap<Scalar>::coordinates() const {
  if (is_identity()) return {size(), 1};
  std::vector<std::int64_t> permutation(static_cast<std::size_t>(size()));
  for (std::int64_t i = 0; i < size(); ++i) {
    Eigen::Index to = i % width_;
    if (has_blocks()) blocks_.row(i).cwiseAbs().maxCoeff(&to);
    permutation[static_cast<std::size_t>(i)] = target(i / width_) * width_ + to;
  }
  return {size(), 1, std::move(permutation), {}};
}

template <class Scalar>
BlockMap<Scalar> BlockMap<Scalar>::repeated(std::int64_t repeat) const {
  if (repeat == 1) return *this;
  if (width_ != 1) throw UsageError("[block map] only numbers can be repeated");
  std::vector<std::int64_t> permutation;
  for (std::int64_t i = 0; permutes() && i < count_; ++i) {
    for (std::int64_t j = 0; j < repeat; ++j) permutation.push_back(target(i) * repeat + j);
  }
  Matrix<Scalar> blocks(has_blocks() ? count_ * repeat : 0, 1);
  for (std::int64_t i = 0; has_blocks() && i < count_; ++i) {
    blocks.middleRows(i * repeat, repeat).setConstant(blocks_(i, 0));
  }
  return {count_ * repeat, 1, std::move(permutation), std::move(blocks)};
}

template <class Scalar>
BlockMap<Scalar> BlockMap<Scalar>::tiled(std::int64_t tile) const {
  if (tile == 1) return *this;
  std::vector<std::int64_t> permutation;
  if (permutes()) {
    for (std::int64_t t = 0; t < tile; ++t) {
      for (const auto place : permutation_) permutation.push_back(t * count_ + place);
    }
  }
  return {count_ * tile, width_, std::move(permutation), blocks_.replicate(tile, 1)};
}

template <class Scalar>
BlockMap<Scalar> BlockMap<Scalar>::lifted(const BlockMap& heads) const {
  const std::int64_t group = heads.count_ / count_;
  for (std::int64_t i = 0; i < heads.count_; ++i) {
    if (heads.target(i) / group != target(i / group)) {
      throw UsageError("[block map] the query heads do not move with their kv heads");
    }
  }
  Matrix<Scalar> blocks;
  if (has_blocks()) {
    blocks.resize(heads.count_ * width_, width_);
    for (std::int64_t i = 0; i < heads.count_; ++i) {
      blocks.middleRows(i * width_, width_) = block(i / group);
    }
  }
  return {heads.count_, width_, heads.permutation_, std::move(blocks)};
}

template <class Scalar>
std::int64_t BlockMap<Scalar>::target_slice(std::int64_t slices, std::int64_t slice) const {
  const std::int64_t size = count_ / slices;
  bool together = size * slices == count_;
  const std::int64_t to = together ? target(slice * size) / size : 0;
  for (std::int64_t i = slice * size; together && i < (slice + 1) * size; ++i) {
    together = target(i) / size == to;
  }
  if (!together) {
    throw UsageError("[block map] what belongs to one expert does not stay together");
  }
  return to;
}

template <class Scalar>
BlockMap<Scalar> BlockMap<Scalar>::in_slice(std::int64_t slices, std::int64_t slice) const {
  const std::int64_t size = count_ / slices, to = target_slice(slices, slice);
  std::vector<std::int64_t> permutation;
  for (std::int64_t i = slice * size; permutes() && i < (slice + 1) * size; ++i) {
    permutation.push_back(target(i) - to * size);
  }
  Matrix<Scalar> blocks;
  if (has_blocks()) blocks = blocks_.middleRows(slice * size * width_, size * width_);
  return {size, width_, std::move(permutation), std::move(blocks)};
}

template <class Scalar>
Matrix<Scalar> BlockMap<Scalar>::dense() const {
  Matrix<Scalar> matrix = Matrix<Scalar>::Zero(size(), size());
  for (std::int64_t i = 0; i < count_; ++i) {
    matrix.block(i * width_, target(i) * width_, width_, width_) = block(i);
  }
  return matrix;
}

template <class Scalar>
template <class Other>
BlockMap<Other> BlockMap<Scalar>::cast() const {
  return {count_, width_, permutation_, blocks_.template cast<Other>()};
}

template <class Scalar>
void BlockMap<Scalar>::apply(Matrix<Scalar>& tensor, int axis) const {
  const std::int64_t length = axis == 0 ? tensor.rows() : tensor.cols();
  if (length != size()) {
    throw UsageError(
        fmt::format("[block map] a map of {} coordinates on an axis of {}", size(), length));
  }
  if (is_identity()) return;
  if (count_ == 1) {
    tensor = axis == 0 ? product_transposed(blocks_, tensor) : product(tensor, blocks_);
    return;
  }
  if (!permutes() && width_ == 1) {
    if (axis == 0) {
      tensor.array().colwise() *= blocks_.col(0).array();
    } else {
      tensor.array().rowwise() *= blocks_.col(0).transpose().array();
    }
    return;
  }
  Matrix<Scalar> moved(tensor.rows(), tensor.cols());
  if (axis == 0) {
    for (std::int64_t i = 0; i < count_; ++i) {
      auto destination = moved.middleRows(target(i) * width_, width_);
      const auto source = tensor.middleRows(i * width_, width_);
      if (!has_blocks()) {
        destination = source;
      } else {
        multiply<Scalar>(true, blocks_.middleRows(i * width_, width_), source, destination);
      }
    }
  } else if (width_ == 1) {
    for (std::int64_t row = 0; row < tensor.rows(); ++row) {
      const Scalar* source = tensor.row(row).data();
      Scalar* destination = moved.row(row).data();
      for (std::int64_t i = 0; i < count_; ++i) {
        destination[target(i)] = has_blocks() ? source[i] * blocks_(i, 0) : source[i];
      }
    }
  } else {
    for (std::int64_t i = 0; i < count_; ++i) {
      auto destination = moved.middleCols(target(i) * width_, width_);
      const auto source = tensor.middleCols(i * width_, width_);
      if (!has_blocks()) {
        destination = source;
      } else {
        multiply<Scalar>(false, source, blocks_.middleRows(i * width_, width_), destination);
      }
    }
  }
  tensor = std::move(moved);
}

template <class Scalar>
void BlockMap<Scalar>::apply_transposed(Matrix<Scalar>& tensor, int axis) const {
  if (count_ != 1 || !has_blocks()) return transpose().apply(tensor, axis);
  const auto rows = tensor.rows(), cols = tensor.cols();
  Matrix<Scalar> moved(rows, cols);
  if (axis == 0) {
    gemm<Scalar>(false, false, rows, cols, rows, 1, blocks_.data(), width_, tensor.data(), cols, 0,
                 moved.data(), cols);
  } else {
    gemm<Scalar>(false, true, rows, cols, cols, 1, tensor.data(), cols, blocks_.data(), width_, 0,
                 moved.data(), cols);
  }
  tensor = std::move(moved);
}

template <class Scalar>
double distance(const BlockMap<Scalar>& a, const BlockMap<Scalar>& b) {
  if (a.count() != b.count() || a.width() != b.width()) {
    throw UsageError("[block map] distance of maps of different shapes");
  }
  double largest = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const Matrix<Scalar> left = a.block(i);
    const Matrix<Scalar> right = b.block(i);
    if (a.target(i) != b.target(i)) {
      largest = std::max({largest, static_cast<double>(left.cwiseAbs().maxCoeff()),
                          static_cast<double>(right.cwiseAbs().maxCoeff())});
    } else {
      largest = std::max(largest, static_cast<double>((left - right).cwiseAbs().maxCoeff()));
    }
  }
  return largest;
}

template class BlockMap<float>;
template class BlockMap<double>;
template BlockMap<float> BlockMap<double>::cast() const;
template BlockMap<double> BlockMap<float>::cast() const;
template BlockMap<double> BlockMap<double>::cast() const;
template double distance(const BlockMap<float>&, const BlockMap<float>&);
template double distance(const BlockMap<double>&, const BlockMap<double>&);

}  // namespace regauge
