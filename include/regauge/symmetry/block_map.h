#pragma once

#include <vector>

#include "regauge/numerics/matrix.h"

namespace regauge {

// A block-monomial matrix M: `count` blocks of width `width`, block i is multiplied by B_i and goes
// to place p(i):
//
//   (x M)_{p(i)} = x_i B_i          x a row vector of count * width numbers
//
// Every linear symmetry of a Transformer has this form: one dense block (the residual stream), one
// block per head, or one number per neuron. An identity permutation and identity blocks are stored
// as empty.
template <class Scalar>
class BlockMap {
 public:
  BlockMap() = default;
  BlockMap(std::int64_t count, std::int64_t width) : count_(count), width_(width) {}
  // `blocks` is [count * width, width], B_i in rows i * width ...; either may be empty.
  BlockMap(std::int64_t count, std::int64_t width, std::vector<std::int64_t> permutation,
           Matrix<Scalar> blocks);

  std::int64_t count() const { return count_; }
  std::int64_t width() const { return width_; }
  std::int64_t size() const { return count_ * width_; }
  bool permutes() const { return !permutation_.empty(); }
  bool has_blocks() const { return blocks_.size() != 0; }
  bool is_identity() const { return !permutes() && !has_blocks(); }
  std::int64_t target(std::int64_t i) const {
    return permutes() ? permutation_[static_cast<std::size_t>(i)] : i;
  }
  const std::vector<std::int64_t>& permutation() const { return permutation_; }
  const Matrix<Scalar>& blocks() const { return blocks_; }
  Matrix<Scalar> block(std::int64_t i) const;

  // (g * h) acts as h first, then g.
  BlockMap operator*(const BlockMap& first) const;
  BlockMap inverse() const;
  BlockMap transpose() const;
  // The inverse transpose: how a covector's coordinates change.
  BlockMap dual() const { return inverse().transpose(); }

  BlockMap permutation_part() const { return {count_, width_, permutation_, {}}; }
  BlockMap diagonal_part() const { return {count_, width_, {}, blocks_}; }
  BlockMap absolute_part() const;  // |entries|
  BlockMap squared_part() const;   // entries squared: what it does to variances
  BlockMap sign_part() const;      // signs of the entries

  // Where blocks that are signed permutations, up to lengths, move each coordinate.
  BlockMap coordinates() const;

  // Each number b_i on `repeat` coordinates of its own, which move together; for maps of width 1.
  BlockMap repeated(std::int64_t repeat) const;
  // The same map on each of `tile` consecutive runs.
  BlockMap tiled(std::int64_t tile) const;
  // From kv heads to query heads: query head i has B of its kv head i / (heads.count / count) and
  // moves as `heads` says.
  BlockMap lifted(const BlockMap& heads) const;

  // On `slices` equal runs of blocks that stay together (experts): where one of them goes, and what
  // happens in it. Throws UsageError if they do not.
  std::int64_t target_slice(std::int64_t slices, std::int64_t slice) const;
  BlockMap in_slice(std::int64_t slices, std::int64_t slice) const;

  Matrix<Scalar> dense() const;
  template <class Other>
  BlockMap<Other> cast() const;

  // tensor <- tensor M (axis 1: each row is a vector), or M^T tensor (axis 0: each column is a
  // vector).
  void apply(Matrix<Scalar>& tensor, int axis) const;
  // tensor <- tensor M^T, or M tensor.
  void apply_transposed(Matrix<Scalar>& tensor, int axis) const;

 private:
  // The inverse permutation with every block changed and carried along.
  template <class Change>
  BlockMap backwards(Change change) const;

  std::int64_t count_ = 0;
  std::int64_t width_ = 1;
  std::vector<std::int64_t> permutation_;
  Matrix<Scalar> blocks_;
};

// Largest absolute difference of the matrices; throws UsageError for maps of different shapes.
template <class Scalar>
double distance(const BlockMap<Scalar>& a, const BlockMap<Scalar>& b);

}  // namespace regauge
