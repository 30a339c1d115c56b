#include "gauge.h"

#include <Eigen/Eigenvalues>

#include <algorithm>

namespace regauge {
namespace {

constexpr double kUndetermined = 1e-13;

// The normal equations P G + G N = C of one block.
struct Normal {
  Matrix<double> p, n, c;
};

// Where the group's matrices are the invertible ones of an algebra, and projecting onto that is
// averaging over what commutes with it, the constrained solution is the free one of the projected
// equations. Small eigenvalues pull towards the identity.
Matrix<double> solve(const Normal& normal, const BlockGroup& group) {
  const auto project = [&](const Matrix<double>& matrix) {
    return std::visit([&](const auto& g) { return g.project(matrix); }, group);
  };
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> left(project(normal.p));
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> right(project(normal.n));
  const auto& u = left.eigenvectors();
  const auto& v = right.eigenvectors();
  Eigen::MatrixXd x = u.transpose() * project(normal.c) * v;
  const Eigen::MatrixXd identity = u.transpose() * v;
  const double pull = kUndetermined * (left.eigenvalues().cwiseAbs().maxCoeff() +
                                       right.eigenvalues().cwiseAbs().maxCoeff()) +
                      1e-300;
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    for (Eigen::Index j = 0; j < x.cols(); ++j) {
      x(i, j) = (x(i, j) + pull * identity(i, j)) /
                (left.eigenvalues()(i) + right.eigenvalues()(j) + pull);
    }
  }
  return project(u * x * v.transpose());
}

double mean_square(const Matrix<double>& matrix) {
  return matrix.size() == 0 ? 0 : matrix.squaredNorm() / static_cast<double>(matrix.size());
}

// The one part of an axis that belongs to the space; null if another unknown space acts too.
const AxisPart* part_of(const Axis& axis, const std::string& space,
                        const std::set<std::string>& unknown) {
  const AxisPart* found = nullptr;
  for (const auto& part : axis) {
    if (part.take == AxisPart::Take::permutation) continue;
    if (part.space == space) {
      found = &part;
    } else if (unknown.contains(part.space)) {
      return nullptr;
    }
  }
  return found;
}

// The tensor with the axis in columns. What a layer norm does not see, or only as a constant, may
// be known badly and is left out: the mean over the stream.
Matrix<double> vectors(const Symmetry& symmetry, const Matrix<double>& tensor, int axis) {
  Matrix<double> rows = axis == 1 ? tensor : Matrix<double>(tensor.transpose());
  if (symmetry.architecture.norm == Norm::layer) rows.rowwise() -= rows.colwise().mean().eval();
  return rows;
}

}  // namespace

BlockMap<double> least_squares_blocks(const Symmetry& symmetry, const Space& space,
                                      const std::set<std::string>& unknown,
                                      const Parameters<double>& a, const Parameters<double>& b) {
  const auto width = space.width();
  const Matrix<double> zero = Matrix<double>::Zero(width, width);
  std::vector<Normal> normals(static_cast<std::size_t>(space.count), {zero, zero, zero});
  for (const auto& [name, tensor] : a) {
    if (tensor.rows() == 1) continue;  // in standard form perhaps zero but for rounding
    const TensorAxes& axes = symmetry.tensors.at(name);
    for (const int axis : {0, 1}) {
      const AxisPart* part = part_of(axis == 0 ? axes.rows : axes.cols, space.name, unknown);
      if (part == nullptr) continue;
      const Matrix<double> in_a = vectors(symmetry, tensor, axis);
      const Matrix<double> in_b = vectors(symmetry, b.at(name), axis);
      const double size = mean_square(part->dual ? in_a : in_b);
      if (size == 0) continue;
      const std::int64_t blocks = in_a.cols() / width;
      for (std::int64_t i = 0; i < blocks; ++i) {
        Normal& normal = normals[static_cast<std::size_t>(i / (blocks / space.count))];
        const auto block_a = in_a.middleCols(i * width, width);
        const auto block_b = in_b.middleCols(i * width, width);
        if (part->dual) {
          normal.n += block_a.transpose() * block_a / size;
        } else {
          normal.p += block_b.transpose() * block_b / size;
        }
        normal.c += block_b.transpose() * block_a / size;
      }
    }
  }
  Matrix<double> blocks(space.size(), width);
  for (std::int64_t i = 0; i < space.count; ++i) {
    blocks.middleRows(i * width, width) = solve(normals[static_cast<std::size_t>(i)], space.group);
  }
  return {space.count, width, {}, std::move(blocks)};
}

}  // namespace regauge
