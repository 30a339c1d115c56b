#include "regauge/symmetry/decompositions.h"

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

Inverse inverse(const Matrix<double>& m) {
  const Eigen::PartialPivLU<Eigen::MatrixXd> lu(m);
  return {lu.inverse(), lu.rcond()};
}

bool is_invertible(const Matrix<double>& m) {
  return Eigen::FullPivLU<Eigen::MatrixXd>(m).isInvertible();
}

Eigen::MatrixXd least_squares(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b) {
  return Eigen::ColPivHouseholderQR<Eigen::MatrixXd>(a).solve(b);
}

RowSpace row_space(const Matrix<double>& m, double threshold) {
  Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(m.transpose());
  qr.setThreshold(threshold);
  const Eigen::MatrixXd basis = qr.householderQ();
  return {basis.transpose(), qr.rank()};
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
