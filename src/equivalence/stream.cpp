#include "stream.h"

#include <Eigen/LU>

#include <cmath>

namespace regauge {
namespace {

constexpr double kSingular = 1e-13;

// b_rows^T a_rows, summed over all tensors that live in the space, each in units of its own size;
// and the squared lengths of the coordinates.
struct Correlation {
  Matrix<double> cross;
  Eigen::VectorXd squares_a, squares_b;
};

Matrix<double> rows_in_stream(const Symmetry& symmetry, const std::string& name, int axis,
                              const Matrix<double>& tensor) {
  Matrix<double> rows = axis == 1 ? tensor : Matrix<double>(tensor.transpose());
  if (axis == 1 && symmetry.tensors.at(name).pinned) {
    for (Eigen::Index i = 0; i < rows.cols(); ++i) {
      rows.col(i).array() += fixed_origin(symmetry.architecture, name, i);
    }
  }
  return rows;
}

Correlation correlate(const Symmetry& symmetry, const Space& space, const Parameters<double>& a,
                      const Parameters<double>& b) {
  const auto size = space.size();
  Correlation sum{Matrix<double>::Zero(size, size), Eigen::VectorXd::Zero(size),
                  Eigen::VectorXd::Zero(size)};
  for (const auto& [name, tensor] : a) {
    if (tensor.rows() == 1) continue;  // in standard form perhaps zero but for rounding
    const TensorAxes& axes = symmetry.tensors.at(name);
    for (const int axis : {0, 1}) {
      for (const auto& part : axis == 0 ? axes.rows : axes.cols) {
        if (part.space != space.name || part.take != AxisPart::Take::whole) continue;
        const Matrix<double> in_a = rows_in_stream(symmetry, name, axis, tensor);
        const Matrix<double> in_b = rows_in_stream(symmetry, name, axis, b.at(name));
        const double size_a = in_a.norm(), size_b = in_b.norm();
        if (size_a == 0 || size_b == 0) continue;
        const double entries = static_cast<double>(in_a.size());
        sum.cross += product_transposed(in_b, in_a) * (entries / (size_a * size_b));
        sum.squares_a += in_a.colwise().squaredNorm().transpose() * (entries / (size_a * size_a));
        sum.squares_b += in_b.colwise().squaredNorm().transpose() * (entries / (size_b * size_b));
      }
    }
  }
  return sum;
}

// The orthogonal matrix nearest to m, by Newton's iteration x -> (s x + (s x)^-T) / 2 with Higham's
// scaling; false where m is singular.
bool nearest_orthogonal(Matrix<double>& m) {
  for (int step = 0; step < 60; ++step) {
    const Eigen::PartialPivLU<Matrix<double>> lu(m);
    if (step == 0 && !(lu.rcond() > kSingular)) return false;
    const Matrix<double> dual = lu.inverse().transpose();
    const double scale = std::sqrt(dual.norm() / m.norm());
    const Matrix<double> next = (scale * m + dual / scale) / 2;
    const double change = (next - m).norm();
    m = next;
    if (change < 1e-14 * m.norm()) break;
  }
  return m.allFinite();
}

// Rows of squares_b to columns of squares_a by the largest |cosine|.
BlockMap<double> signed_permutation(const Space& space, const Correlation& sum, double& sign_sum) {
  const auto size = space.size();
  std::vector<std::int64_t> permutation(static_cast<std::size_t>(size));
  std::vector<bool> used(static_cast<std::size_t>(size));
  Matrix<double> signs(size, 1);
  sign_sum = 0;
  for (Eigen::Index i = 0; i < size; ++i) {
    Eigen::Index best = -1;
    double best_cosine = -1;
    for (Eigen::Index j = 0; j < size; ++j) {
      const double cosine =
          std::abs(sum.cross(i, j)) / std::sqrt(sum.squares_b(i) * sum.squares_a(j) + 1e-300);
      if (used[static_cast<std::size_t>(j)] || cosine <= best_cosine) continue;
      best = j;
      best_cosine = cosine;
    }
    used[static_cast<std::size_t>(best)] = true;
    permutation[static_cast<std::size_t>(i)] = best;
    signs(i, 0) = sum.cross(i, best) < 0 ? -1 : 1;
    sign_sum += sum.cross(i, best);
  }
  const bool has_signs = space.log2_components() > log2_factorial(size);
  return {size, 1, std::move(permutation), has_signs ? signs : Matrix<double>()};
}

}  // namespace

void recover_stream(const Symmetry& symmetry, const Parameters<double>& a,
                    const Parameters<double>& b, Element& found, std::vector<std::string>& limits) {
  const Space* space = symmetry.find_space("residual");
  if (space == nullptr) return;
  Correlation sum = correlate(symmetry, *space, a, b);
  if (const auto* group = std::get_if<Orthogonal>(&space->group)) {
    // What must stay is made to.
    sum.cross += sum.cross.norm() * group->fixed().transpose() * group->fixed();
    if (!nearest_orthogonal(sum.cross)) {
      limits.push_back("embeddings and head span less than the stream");
      return;
    }
    found.maps[space->name] = BlockMap<double>(1, space->size(), {}, sum.cross);
    return;
  }
  double sign = 1;
  found.maps[space->name] = signed_permutation(*space, sum, sign);
  if (symmetry.find_space("residual.sign") != nullptr && sign < 0) {
    found.maps["residual.sign"] = BlockMap<double>(1, 1, {}, Matrix<double>::Constant(1, 1, -1));
  }
}

bool recover_scales(const Symmetry& symmetry, const Parameters<double>& a,
                    const Parameters<double>& b, Element& found) {
  bool any = false;
  for (const auto& spec : parameter_specs(symmetry.architecture)) {
    if (!a.contains(spec.name)) continue;
    const TensorAxes& axes = symmetry.tensors.at(spec.name);
    for (const int axis : {0, 1}) {
      for (const auto& part : axis == 0 ? axes.rows : axes.cols) {
        const Space& space = *symmetry.find_space(part.space);
        if (space.category != Category::scales || part.dual || found.maps.contains(space.name)) {
          continue;
        }
        const Matrix<double>& in_a = a.at(spec.name);
        const Matrix<double>& in_b = b.at(spec.name);
        Matrix<double> ratios(space.count, 1);
        for (Eigen::Index i = 0; i < space.count; ++i) {  // one number, or one per row
          const double size_a = space.count == 1 ? in_a.norm() : in_a.row(i).norm();
          const double size_b = space.count == 1 ? in_b.norm() : in_b.row(i).norm();
          ratios(i, 0) = size_a > 0 && size_b > 0 ? size_a / size_b : 1;
        }
        found.maps[space.name] = BlockMap<double>(space.count, 1, {}, ratios);
        any = true;
      }
    }
  }
  return any;
}

}  // namespace regauge
