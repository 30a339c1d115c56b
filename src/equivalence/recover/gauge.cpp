#include "gauge.h"

#include <algorithm>
#include <cmath>

#include "arch/names.h"
#include "equivalence/recover/tolerances.h"
#include "numerics/decompositions.h"
#include "numerics/dense.h"
#include "numerics/polar.h"

namespace regauge {
namespace {

constexpr int kAttempts = 6;

// The normal equations P G + G N = C of one block.
struct Normal {
  Matrix<double> p, n, c;
};

bool is_member(const BlockGroup& group, const Matrix<double>& matrix) {
  const Matrix<double> scaled = matrix / matrix.norm();
  return std::visit([&](const auto& g) { return g.violation(scaled) < 1e-6; }, group);
}

// Where the group's matrices are the invertible ones of an algebra, and projecting onto that is
// averaging over what commutes with it, the constrained solution is the free one of the projected
// equations. What they leave open within `rounding` is pulled towards some member: the one of a few
// that leaves the solution best invertible. Without any solution in the group it is the identity.
Matrix<double> solve(const Normal& normal, const BlockGroup& group, double rounding) {
  const auto project = [&](const Matrix<double>& matrix) {
    return std::visit([&](const auto& g) { return g.project(matrix); }, group);
  };
  const Eigenpairs left = eigenpairs(project(normal.p)), right = eigenpairs(project(normal.n));
  const auto& u = left.vectors;
  const auto& v = right.vectors;
  const Eigen::MatrixXd c = u.transpose() * project(normal.c) * v;
  const auto size = c.rows();
  const double largest = left.values.maxCoeff() + right.values.maxCoeff();
  const double average = left.values.mean() + right.values.mean();
  const double pull = std::max(kLeastPull * largest, 4 * rounding * rounding * average) + 1e-300;
  const auto solution_near = [&](const Matrix<double>& member) -> Matrix<double> {
    Eigen::MatrixXd x = u.transpose() * member * v;
    for (Eigen::Index i = 0; i < size; ++i) {
      for (Eigen::Index j = 0; j < size; ++j) {
        x(i, j) = (c(i, j) + pull * x(i, j)) / (left.values(i) + right.values(j) + pull);
      }
    }
    return project(u * x * v.transpose());
  };
  const Matrix<double> identity = Matrix<double>::Identity(size, size);
  Matrix<double> best = solution_near(identity);
  const bool is_open = left.values(0) + right.values(0) < kUndeterminedBelow * pull;
  if (is_open && size > 1) {
    const double scale = std::max(1e-150, best.norm() / std::sqrt(static_cast<double>(size)));
    double best_condition = reciprocal_condition(best);
    Random random(0, "gauge");
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const Matrix<double> member =
          std::visit([&](const auto& g) { return Matrix<double>(g.random(random)); }, group);
      Matrix<double> candidate = solution_near(scale * member);
      const double candidate_condition = reciprocal_condition(candidate);
      if (!(candidate_condition > best_condition)) continue;
      best = std::move(candidate);
      best_condition = candidate_condition;
    }
  }
  return best.allFinite() && is_member(group, best) ? best : identity;
}

double mean_square(const Matrix<double>& matrix) {
  return matrix.size() == 0 ? 0 : matrix.squaredNorm() / static_cast<double>(matrix.size());
}

// The one part of an axis that belongs to the space; null if another unknown space acts too, or
// this one twice (behind a squared ReLU), which another tensor has once.
const AxisPart* part_of(const Axis& axis, const std::string& space,
                        const std::set<std::string>& unknown) {
  const AxisPart* found = nullptr;
  for (const auto& part : axis) {
    if (part.take == AxisPart::Take::permutation) continue;
    if (part.space == space) {
      if (found != nullptr) return nullptr;
      found = &part;
    } else if (unknown.contains(part.space)) {
      return nullptr;
    }
  }
  return found;
}

// A bias counts in units of its matrix: it may be zero but for rounding.
const Matrix<double>& unit_of(const std::string& name, const Parameters<double>& parameters) {
  if (name.ends_with(".bias")) {
    const auto matrix = parameters.find(sibling_of(name, "weight"));
    if (matrix != parameters.end() && !matrix->second.isZero(0)) return matrix->second;
  }
  return parameters.at(name);
}

// The tensor with the axis in columns. What a layer norm does not see, or only as a constant, may
// be known badly and is left out: the mean over the stream.
Matrix<double> vectors(const Symmetry& symmetry, const Matrix<double>& tensor, int axis) {
  Matrix<double> rows = axis == 1 ? tensor : Matrix<double>(tensor.transpose());
  const bool blind = symmetry.architecture.norm == Norm::layer && rows.rows() > 1;
  if (blind) rows.rowwise() -= rows.colwise().mean().eval();
  return rows;
}

}  // namespace

BlockMap<double> least_squares_blocks(const Symmetry& symmetry, const Space& space,
                                      const std::set<std::string>& unknown,
                                      const Parameters<double>& a, const Parameters<double>& b,
                                      double rounding, const Enlarged& enlarged) {
  const auto width = space.width();
  const Matrix<double> zero = Matrix<double>::Zero(width, width);
  std::vector<Normal> normals(static_cast<std::size_t>(space.count), {zero, zero, zero});
  for (const auto& [name, tensor] : a) {
    const TensorAxes& axes = symmetry.tensors.at(name);
    for (const int axis : {0, 1}) {
      const AxisPart* part = part_of(axis == 0 ? axes.rows : axes.cols, space.name, unknown);
      if (part == nullptr) continue;
      const Matrix<double> in_a = vectors(symmetry, tensor, axis);
      const Matrix<double> in_b = vectors(symmetry, b.at(name), axis);
      double size = mean_square(unit_of(name, part->dual ? a : b));
      if (const auto factor = enlarged.find(name); factor != enlarged.end()) {
        size *= factor->second;
      }
      if (size == 0) continue;
      const std::int64_t blocks = in_a.cols() / width;
      for (std::int64_t i = 0; i < blocks; ++i) {
        Normal& normal = normals[static_cast<std::size_t>(i / (blocks / space.count))];
        const auto block_a = in_a.middleCols(i * width, width);
        const auto block_b = in_b.middleCols(i * width, width);
        if (part->dual) {
          normal.n += product_transposed(block_a, block_a) / size;
        } else {
          normal.p += product_transposed(block_b, block_b) / size;
        }
        normal.c += product_transposed(block_b, block_a) / size;
      }
    }
  }
  Matrix<double> blocks(space.size(), width);
  for (std::int64_t i = 0; i < space.count; ++i) {
    const Normal& normal = normals[static_cast<std::size_t>(i)];
    auto block = blocks.middleRows(i * width, width);
    if (space.is_signs()) {
      block(0, 0) = normal.c(0, 0) < 0 ? -1 : 1;
    } else {
      block = space.is_orthogonal() ? polar_factor(normal.c) : solve(normal, space.group, rounding);
    }
  }
  return {space.count, width, {}, std::move(blocks)};
}

}  // namespace regauge
