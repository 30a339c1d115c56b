#include "branch_size.h"

#include <cmath>

#include "arch/names.h"
#include "numerics/dense.h"

namespace regauge {
namespace {

double root_mean_square(double squares, const Matrix<double>& of) {
  return std::sqrt(squares / static_cast<double>(of.size()));
}

// |v o|^2, the sum over the query heads.
double squares_of_heads(const Attention& attention, const Matrix<double>& v,
                        const Matrix<double>& o) {
  const std::int64_t width = attention.v_width;
  double squares = 0;
  for (std::int64_t head = 0; head < attention.heads; ++head) {
    const Matrix<double> written = v.middleCols(head / attention.group() * width, width);
    const Matrix<double> read = o.middleRows(head * width, width).transpose();
    squares +=
        product_transposed(written, written).cwiseProduct(product_transposed(read, read)).sum();
  }
  return squares;
}

}  // namespace

double branch_size(const Symmetry& symmetry, const std::string& tensor,
                   const Parameters<double>& tensors) {
  const Matrix<double>& last = tensors.at(tensor);
  const std::string at(owner_of(owner_of(tensor)));  // "layers.0.ffn", or that of the shared expert
  const auto has_lengths = [&](const char* space) {
    const Space* found = symmetry.find_space(at + space);
    return found != nullptr && found->dimension() > 0 && !found->is_orthogonal();
  };
  if (tensor == at + ".o.weight" && has_lengths(".vo")) {
    const Attention& attention = symmetry.architecture.layer(layer_of(tensor)).attention;
    return root_mean_square(squares_of_heads(attention, tensors.at(at + ".v.weight"), last), last);
  }
  if (tensor != at + ".down.weight" || !has_lengths(".neurons")) {
    return root_mean_square(last.squaredNorm(), last);
  }
  Eigen::VectorXd squares = last.rowwise().squaredNorm();
  squares.array() *= tensors.at(at + ".up.weight").colwise().squaredNorm().transpose().array();
  if (has_lengths(".gates")) {
    squares.array() *= tensors.at(at + ".gate.weight").colwise().squaredNorm().transpose().array();
  }
  return root_mean_square(squares.sum(), last);
}

}  // namespace regauge
