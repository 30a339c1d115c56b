#pragma once

#include "regauge/numerics/matrix.h"

namespace regauge {

// Dense problems, solved by Eigen: every file that has one calls it here, as Eigen's solvers are
// templates that take the compiler seconds in each. What wants LAPACK is in base/blas.h.

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

// Of a square m; not finite where it is singular.
Matrix<double> inverse(const Matrix<double>& m);
double reciprocal_condition(const Matrix<double>& m);  // an estimate of 1 / (|m| |m^-1|), or 0
bool is_invertible(const Matrix<double>& m);           // within rounding

// The x that minimises |a x - b|; the x with a x = b, of a symmetric positive a.
Eigen::MatrixXd least_squares(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b);
Eigen::MatrixXd solve_positive(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b);

// Orthonormal rows that span those of m, but for what is smaller than `threshold` of the largest;
// orthonormal rows that span what is orthogonal to m, whose rows are orthonormal.
Matrix<double> row_space(const Matrix<double>& m, double threshold);
Matrix<double> complement(const Matrix<double>& m);

// exp(m), of any square matrix.
Matrix<double> matrix_exponential(const Matrix<double>& m);
Eigen::MatrixXcd complex_matrix_exponential(const Eigen::MatrixXcd& m);

}  // namespace regauge
