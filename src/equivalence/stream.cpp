#include "stream.h"

#include <Eigen/LU>

#include <cmath>

namespace regauge {
namespace {

constexpr double kSingular = 1e-13;

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

// The orthogonal matrix nearest to m in its place: Newton's iteration x -> (s x + (s x)^-T) / 2
// with Higham's scaling, and once it is near x -> x (3 - x^T x) / 2, which needs only products.
// Returns the reciprocal of m's condition.
double make_orthogonal(Matrix<double>& m) {
  const auto size = m.rows();
  double condition = 0;
  for (int step = 0; step < 60; ++step) {
    const Eigen::PartialPivLU<Matrix<double>> lu(m);
    if (step == 0) condition = lu.rcond();
    if (!(condition > kSingular)) return 0;
    const Matrix<double> dual = lu.inverse().transpose();
    const double scale = std::sqrt(dual.norm() / m.norm());
    m = (scale * m + dual / scale) / 2;
    if ((product_transposed(m, m) - Matrix<double>::Identity(size, size)).norm() < 0.1) break;
  }
  for (int step = 0; step < 6; ++step) {
    const Matrix<double> gram = product_transposed(m, m);
    m = product<double>(m, 1.5 * Matrix<double>::Identity(size, size) - 0.5 * gram);
  }
  return m.allFinite() ? condition : 0;
}

// Rows of squares_b to columns of squares_a by the largest |cosine|.
BlockMap<double> signed_permutation(const Space& space, const StreamCorrelation& sum,
                                    double& sign_sum) {
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

StreamCorrelation::StreamCorrelation(const Symmetry& symmetry) {
  const Space* space = symmetry.find_space("residual");
  const auto size = space == nullptr ? 0 : space->size();
  cross = Matrix<double>::Zero(size, size);
  squares_a = squares_b = Eigen::VectorXd::Zero(size);
}

void StreamCorrelation::add(const Symmetry& symmetry, const Parameters<double>& a,
                            const Parameters<double>& b) {
  if (cross.size() == 0) return;
  for (const auto& [name, tensor] : a) {
    if (tensor.rows() == 1) continue;  // in standard form perhaps zero but for rounding
    const TensorAxes& axes = symmetry.tensors.at(name);
    for (const int axis : {0, 1}) {
      for (const auto& part : axis == 0 ? axes.rows : axes.cols) {
        if (part.space != "residual" || part.take != AxisPart::Take::whole) continue;
        const Matrix<double> in_a = rows_in_stream(symmetry, name, axis, tensor);
        const Matrix<double> in_b = rows_in_stream(symmetry, name, axis, b.at(name));
        const double size_a = in_a.norm(), size_b = in_b.norm();
        if (size_a == 0 || size_b == 0) continue;
        const double entries = static_cast<double>(in_a.size());
        cross += product_transposed(in_b, in_a) * (entries / (size_a * size_b));
        squares_a += in_a.colwise().squaredNorm().transpose() * (entries / (size_a * size_a));
        squares_b += in_b.colwise().squaredNorm().transpose() * (entries / (size_b * size_b));
      }
    }
  }
}

double recover_stream(const Symmetry& symmetry, const StreamCorrelation& sum, Element& found,
                      std::vector<std::string>& limits) {
  const Space* space = symmetry.find_space("residual");
  if (space == nullptr) return 1;
  const BlockMap<double> before = map_of(symmetry, found, *space);
  if (const auto* group = std::get_if<Orthogonal>(&space->group)) {
    // What must stay is made to.
    Matrix<double> map = sum.cross + sum.cross.norm() * group->fixed().transpose() * group->fixed();
    const double determined = make_orthogonal(map);
    if (determined == 0) {
      limits.push_back("the tensors at hand span less than the stream");
    } else {
      found.maps[space->name] = BlockMap<double>(1, space->size(), {}, map) * before;
    }
    return determined;
  }
  double sign = 1;
  found.maps[space->name] = signed_permutation(*space, sum, sign) * before;
  if (symmetry.find_space("residual.sign") != nullptr && sign < 0) {
    found.maps["residual.sign"] = BlockMap<double>(1, 1, {}, Matrix<double>::Constant(1, 1, -1));
  }
  return 1;
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
