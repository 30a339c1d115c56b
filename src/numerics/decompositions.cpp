#include "decompositions.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <unsupported/Eigen/MatrixFunctions>

namespace regauge {

Svd svd(const Eigen::MatrixXd& m) {
  const Eigen::BDCSVD<Eigen::MatrixXd> done(m, Eigen::ComputeThinU | Eigen::ComputeThinV);
  return {done.matrixU(), done.singularValues(), done.matrixV()};
}

Eigenpairs eigenpairs(const Eigen::MatrixXd& m) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(m);
  return {solver.eigenvalues(), solver.eigenvectors()};
}

Eigen::VectorXd eigenvalues(const Eigen::MatrixXd& m) {
  return Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(m, Eigen::EigenvaluesOnly).eigenvalues();
}

Matrix<double> inverse(const Matrix<double>& m) {
  return Eigen::PartialPivLU<Eigen::MatrixXd>(m).inverse();
}

double reciprocal_condition(const Matrix<double>& m) {
  const Eigen::PartialPivLU<Eigen::MatrixXd> lu(m);
  // Of a pivot that is exactly 0 Eigen's estimate knows nothing.
  if (!(lu.matrixLU().diagonal().cwiseAbs().minCoeff() > 0)) return 0;
  const double estimate = lu.rcond();
  return estimate > 0 ? estimate : 0;
}

bool is_invertible(const Matrix<double>& m) {
  return Eigen::FullPivLU<Eigen::MatrixXd>(m).isInvertible();
}

Eigen::MatrixXd least_squares(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b) {
  return Eigen::ColPivHouseholderQR<Eigen::MatrixXd>(a).solve(b);
}

Eigen::MatrixXd solve_positive(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b) {
  return Eigen::LLT<Eigen::MatrixXd>(a).solve(b);
}

Matrix<double> row_space(const Matrix<double>& m, double threshold) {
  Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(m.transpose());
  qr.setThreshold(threshold);
  const Eigen::MatrixXd basis = qr.householderQ();
  return basis.leftCols(qr.rank()).transpose();
}

Matrix<double> complement(const Matrix<double>& m) {
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(m.transpose());
  const Eigen::MatrixXd basis = qr.householderQ();
  return basis.rightCols(m.cols() - m.rows()).transpose();
}

Matrix<double> matrix_exponential(const Matrix<double>& m) { return Eigen::MatrixXd(m).exp(); }

// By the real matrix [a -b; b a] of a + i b.
Eigen::MatrixXcd complex_matrix_exponential(const Eigen::MatrixXcd& m) {
  const auto size = m.rows();
  Matrix<double> real(2 * size, 2 * size);
  real << m.real(), -m.imag(), m.imag(), m.real();
  real = matrix_exponential(real);
  Eigen::MatrixXcd result(size, size);
  result.real() = real.topLeftCorner(size, size);
  result.imag() = real.bottomLeftCorner(size, size);
  return result;
}

}  // namespace regauge
