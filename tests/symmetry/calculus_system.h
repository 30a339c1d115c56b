#pragma once

#include <Eigen/Core>

#include <cstdint>
#include <utility>
#include <vector>

namespace regauge::calculus_system {

using Dense = Eigen::MatrixXd;
using Index = Eigen::Index;

// sum_i coefficient_i * unknown_i.
using Form = std::vector<std::pair<int, double>>;

// A matrix of linear forms in the unknowns of a System.
class Forms {
 public:
  Forms() = default;
  Forms(Index rows, Index cols)
      : rows_(rows), cols_(cols), entries_(static_cast<std::size_t>(rows * cols)) {}

  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  Form& operator()(Index row, Index col) {
    return entries_[static_cast<std::size_t>(row * cols_ + col)];
  }
  const Form& operator()(Index row, Index col) const {
    return entries_[static_cast<std::size_t>(row * cols_ + col)];
  }

  Forms block(Index row, Index col, Index rows, Index cols) const;
  Forms row(Index row) const { return block(row, 0, 1, cols_); }
  Forms top(Index rows) const { return block(0, 0, rows, cols_); }
  Forms left(Index cols) const { return block(0, 0, rows_, cols); }
  Forms transposed() const;

  Forms& operator+=(const Forms& other);
  Forms& operator-=(const Forms& other);
  friend Forms operator+(Forms a, const Forms& b) { return a += b; }
  friend Forms operator-(Forms a, const Forms& b) { return a -= b; }
  friend Forms operator*(const Dense& a, const Forms& b);
  friend Forms operator*(const Forms& a, const Dense& b);
  friend Forms operator*(double a, const Forms& b);

 private:
  Index rows_ = 0, cols_ = 0;
  std::vector<Form> entries_;
};

Forms stack(const Forms& top, const Forms& bottom);
// A diagonal matrix with the entries of a single row.
Forms diagonal(const Forms& row);

// Homogeneous linear equations between two sorts of unknowns: parameters and wires.
class System {
 public:
  // The order of elimination. Local: in the equations of one row or column of one tensor only.
  enum Stage { local, sublayer, shared, kStages };

  Forms parameter(Index rows, Index cols, Stage stage);
  Forms wire(Index rows, Index cols, Stage stage);
  // n x n, X = -X^T.
  Forms skew(Index n, Stage stage);

  // Every entry vanishes.
  void require(const Forms& forms);

  // Dimension of {parameter part of z : all equations hold at z}, and the gap of its rank
  // decisions.
  struct Solution {
    std::int64_t dimension = 0;
    double gap = 0;
  };
  Solution solve() const;

 private:
  struct Unknown {
    bool parameter;
    Stage stage;
  };
  Forms add(Index rows, Index cols, Unknown unknown);

  std::vector<Unknown> unknowns_;
  std::vector<Form> equations_;
};

// An orthonormal basis, in rows, of the span of the rows.
Dense row_basis(const Dense& rows);

}  // namespace regauge::calculus_system
