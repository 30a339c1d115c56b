#pragma once

#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "regauge/symmetry/block_map.h"

namespace regauge {

// A matrix that is known by its products with thin ones, and what is done to it afterwards. Nothing
// of its size is ever formed: steps act on what it is multiplied with, and on the result.
template <class S>
class MovedMatrix {
 public:
  using Scalar = S;
  using Thin = Matrix<Scalar>;
  using Row = Eigen::RowVector<Scalar, Eigen::Dynamic>;
  using Product = std::function<Thin(const Thin&)>;

  // left(x) = x W and right(y) = W y of a [rows, cols] matrix W.
  MovedMatrix(std::int64_t rows, std::int64_t cols, Product left, Product right)
      : rows_(rows), cols_(cols), left_(std::move(left)), right_(std::move(right)) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }

  // In place of W from now on: W M or M^T W; W diag(factors) or diag(factors) W; W + column^T row.
  // `map` must outlive this.
  void apply(const BlockMap<Scalar>& map, int axis) {
    steps_.push_back(Map{{&map, [](const BlockMap<Scalar>*) {}}, axis});
  }
  void scale(const Row& factors, int axis) { steps_.push_back(Scale{factors, axis}); }
  void add_outer(const Row& column, const Row& row) { steps_.push_back(Outer{column, row}); }

  Thin left(Thin x) const { return left(std::move(x), steps_.size()); }    // x W, [any, cols]
  Thin right(Thin y) const { return right(std::move(y), steps_.size()); }  // W y, [rows, any]

  // The same with W + E, E independent numbers of these variances: those of x E and E y, for x and
  // y given as the squares of their entries.
  MovedMatrix variances(Product left = {}, Product right = {}) const;
  // What the steps do to bounds of numbers that only change places and signs (is_monomial).
  MovedMatrix<double> bounds() const;
  bool is_monomial() const;

  // The same steps on a matrix in memory.
  void replay(Thin& value) const;
  // On one of `slices` equal runs of vectors of an axis that stay together (experts). Returns which
  // one it becomes.
  std::int64_t replay_slice(int axis, std::int64_t slices, std::int64_t slice, Thin& value) const;
  // The one that becomes `slice`.
  std::int64_t source_of(int axis, std::int64_t slices, std::int64_t slice) const;
  // On some vectors of one axis, given as rows of which the first is number `first`, where nothing
  // is mixed along that axis.
  bool leaves_apart(int axis) const;
  void replay(int axis, std::int64_t first, Thin& vectors) const;

 private:
  template <class Other>
  friend class MovedMatrix;
  struct Map {
    std::shared_ptr<const BlockMap<Scalar>> map;
    int axis;
  };
  struct Scale {
    Row factors;
    int axis;
  };
  struct Outer {
    Row column, row;
  };
  // Of W after the first `count` steps.
  Thin left(Thin x, std::size_t count) const;
  Thin right(Thin y, std::size_t count) const;

  std::int64_t rows_, cols_;
  Product left_, right_;
  std::vector<std::variant<Map, Scale, Outer>> steps_;
};

}  // namespace regauge
