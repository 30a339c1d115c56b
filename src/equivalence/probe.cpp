#include "probe.h"

#include <Eigen/Cholesky>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace regauge {
namespace {

constexpr double kSpan = 1e-5;

// x P for every block of columns, below one another.
Matrix<double> parts_within(const Matrix<double>& columns, std::int64_t width,
                            const Matrix<double>& x) {
  const auto blocks = columns.cols() / width;
  Matrix<double> rows(blocks * x.rows(), x.cols());
  for (Eigen::Index i = 0; i < blocks; ++i) {
    const Matrix<double> block = columns.middleCols(i * width, width);
    const Matrix<double> basis = block * span_root(block);
    rows.middleRows(i * x.rows(), x.rows()) = (x * basis) * basis.transpose();
  }
  return rows;
}

// v (v x) / v^2 for every row v and some probe x: neither v's length nor its sign counts.
Matrix<double> own_parts(Matrix<double> rows, const Matrix<double>& x) {
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    const double square = rows.row(i).squaredNorm();
    if (square > 0) rows.row(i) *= rows.row(i).dot(x.row(i % x.rows())) / square;
  }
  return rows;
}

}  // namespace

Matrix<double> probes(const char* name, const Known& known) {
  Random random(0, fmt::format("signature/{}", name));
  Matrix<double> rows(kProbes, known.dimension());
  for (auto& entry : rows.reshaped<Eigen::RowMajor>()) entry = random.normal();
  return known.embed(rows);
}

Matrix<double> span_root(const Matrix<double>& columns) {
  // Columns that are combinations of others but for rounding come last and are left out.
  const Eigen::LDLT<Eigen::MatrixXd> gram(product_transposed(columns, columns));
  const Eigen::VectorXd squares = gram.vectorD();
  const double least = kSpan * squares(0) + 1e-300;
  const auto size = squares.size();
  const auto rank = std::find_if(squares.begin(), squares.end(),
                                 [&](double square) { return !(square > least); }) -
                    squares.begin();
  Eigen::MatrixXd root = Eigen::MatrixXd::Identity(size, rank);
  const Eigen::MatrixXd factor = gram.matrixL();
  factor.topLeftCorner(rank, rank)
      .transpose()
      .triangularView<Eigen::UnitUpper>()
      .solveInPlace(root.topRows(rank));
  root *= squares.head(rank).cwiseSqrt().cwiseInverse().asDiagonal();
  return gram.transpositionsP().transpose() * root;
}

std::vector<Matrix<double>> layer_vectors(const Architecture& a, std::int64_t layer,
                                          const Parameters<double>& parameters,
                                          const Known& known) {
  const std::string at = fmt::format("layers.{}.", layer);
  const auto weight = [&](const char* name) -> const Matrix<double>& {
    return parameters.at(at + name + ".weight");
  };
  const Matrix<double> x = probes("extension", known);
  std::vector<Matrix<double>> vectors = {own_parts(weight("ffn.up").transpose(), x),
                                         own_parts(weight("ffn.down"), x),
                                         parts_within(weight("attn.q"), a.qk_width, x),
                                         parts_within(weight("attn.k"), a.qk_width, x),
                                         parts_within(weight("attn.v"), a.v_width, x),
                                         parts_within(weight("attn.o").transpose(), a.v_width, x)};
  if (a.gated) vectors.push_back(own_parts(weight("ffn.gate").transpose(), x));
  return vectors;
}

}  // namespace regauge
