#include "probe.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "equivalence/recover/tolerances.h"
#include "numerics/decompositions.h"
#include "numerics/dense.h"

namespace regauge {
namespace {

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
  // Cholesky's factor of the Gram matrix, the column that has most left of itself next; what has
  // nothing left is a combination of others but for rounding.
  const Matrix<double> gram = product_transposed(columns, columns);
  const auto size = gram.rows();
  Matrix<double> factor = Matrix<double>::Zero(size, size);
  Eigen::VectorXd left = gram.diagonal();
  const double least = kSpan * left.maxCoeff() + 1e-300;
  std::vector<Eigen::Index> chosen;
  for (Eigen::Index k = 0; k < size; ++k) {
    Eigen::Index next = 0;
    const double most = left.maxCoeff(&next);
    if (!(most > least)) break;
    factor.col(k) = gram.col(next);
    if (k > 0) factor.col(k) -= factor.leftCols(k) * factor.row(next).head(k).transpose();
    factor.col(k) /= std::sqrt(most);
    left -= factor.col(k).cwiseAbs2();
    left(next) = 0;
    chosen.push_back(next);
  }
  const auto rank = static_cast<Eigen::Index>(chosen.size());
  const Matrix<double> triangle = factor(chosen, Eigen::seqN(0, rank)).transpose();
  Matrix<double> root = Matrix<double>::Zero(size, rank);
  root(chosen, Eigen::all) = inverse(triangle.triangularView<Eigen::Upper>().toDenseMatrix());
  return root;
}

std::vector<Matrix<double>> layer_vectors(const Architecture& a, std::int64_t layer,
                                          const Parameters<double>& parameters,
                                          const Known& known) {
  const Attention& shape = a.layer(layer).attention;
  const std::string at = fmt::format("layers.{}.", layer);
  const auto weight = [&](const char* name) -> const Matrix<double>& {
    return parameters.at(at + name + ".weight");
  };
  const Matrix<double> x = probes("extension", known);
  std::vector<Matrix<double>> vectors;
  if (a.layer(layer).has_ffn()) {
    vectors.push_back(own_parts(weight("ffn.up").transpose(), x));
    vectors.push_back(own_parts(weight("ffn.down"), x));
  }
  if (a.layer(layer).ffn.gated) vectors.push_back(own_parts(weight("ffn.gate").transpose(), x));
  if (a.layer(layer).has_delta()) {
    for (const char* map : {"delta.q", "delta.k", "delta.v", "delta.z"}) {
      vectors.push_back(own_parts(weight(map).transpose(), x));
    }
    vectors.push_back(own_parts(weight("delta.o"), x));
    return vectors;
  }
  vectors.push_back(parts_within(weight("attn.o").transpose(), shape.v_width, x));
  const auto add = [&](const char* name, std::int64_t width) {
    vectors.push_back(parts_within(weight(name), width, x));
  };
  if (shape.q_latent == 0) add("attn.q", shape.plain_width());
  if (shape.has_latents()) {
    if (shape.q_latent > 0) add("attn.q_latent", shape.q_latent);
    add("attn.kv_latent", shape.kv_latent);
    add("attn.k_rotary", shape.rotary_dims);
  } else {
    add("attn.k", shape.qk_width);
    if (!shape.keys_as_values) add("attn.v", shape.v_width);
  }
  return vectors;
}

}  // namespace regauge
