#pragma once

#include "regauge/arch/parameters.h"

namespace regauge {

// The small dense problems: every file that wants one calls it here, as Eigen's own solvers are
// templates that take the compiler seconds in each. Large ones are base/blas.h's.

// m = u diag(values) v^T, values falling, u and v with as many columns as m has rows or columns,
// whichever are fewer.
struct Svd {
  Eigen::MatrixXd u;
  Eigen::VectorXd values;
  Eigen::MatrixXd v;
};
Svd svd(const Eigen::MatrixXd& m);

// A symmetric m = vectors diag(values) vectors^T, values rising.
struct Eigenpairs {
  Eigen::VectorXd values;
  Eigen::MatrixXd vectors;
};
Eigenpairs eigenpairs(const Eigen::MatrixXd& m);
Eigen::VectorXd eigenvalues(const Eigen::MatrixXd& m);  // of a symmetric m, rising

// m^-1 of a square m, and an estimate of 1 / (|m| |m^-1|); not finite where that is 0.
struct Inverse {
  Matrix<double> matrix;
  double reciprocal_condition = 0;
};
Inverse inverse(const Matrix<double>& m);
bool is_invertible(const Matrix<double>& m);  // within rounding

// The x that minimises |a x - b|.
Eigen::MatrixXd least_squares(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b);

// An orthonormal basis by rows, of which the first `rank` span the rows of m; what is smaller than
// `threshold` of the largest counts as rounding.
struct RowSpace {
  Matrix<double> basis;
  Eigen::Index rank = 0;
};
RowSpace row_space(const Matrix<double>& m, double threshold);

// exp(m), of any square matrix.
Matrix<double> matrix_exponential(const Matrix<double>& m);
Eigen::MatrixXcd complex_matrix_exponential(const Eigen::MatrixXcd& m);

}  // namespace regauge
