#include "balance.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "numerics/decompositions.h"

namespace regauge {
namespace {

constexpr double kAbsent = 1e-13;       // of a Gram matrix' eigenvalue: rounding
constexpr double kUndetermined = 1e-6;  // of a product's singular value, as eigenvalues are squares
constexpr double kConverged = 1e-10;
constexpr int kSweeps = 40;

// v^T diag(m) v: what counts as large where v is. Classes that do not mix have sizes of their own.
double local_size(const Eigen::MatrixXd& m, const Eigen::VectorXd& v) {
  return v.cwiseAbs2().dot(m.diagonal());
}

// A with A^T P A = A^-1 N A^-T, in the algebra that holds both: with P^1/2 N P^1/2 = W S^2 W^T,
//   A = P^-1/2 W S^1/2 W^T
// on what P and N both see, and an isometry on the rest.
Matrix<double> balancing(const Matrix<double>& p, const Matrix<double>& n) {
  const auto size = p.rows();
  if (size == 1) {
    const bool both = p(0, 0) > 0 && n(0, 0) > 0;
    return Matrix<double>::Constant(1, 1, both ? std::pow(n(0, 0) / p(0, 0), 0.25) : 1);
  }
  const Eigenpairs of_p = eigenpairs(p), of_n = eigenpairs(n);
  const auto& v = of_p.vectors;
  Eigen::VectorXd root = of_p.values.cwiseMax(0).cwiseSqrt();
  for (Eigen::Index i = 0; i < size; ++i) {
    const double least = std::sqrt(kAbsent * local_size(p, v.col(i)));
    if (root(i) <= least) root(i) = least > 0 ? least : 1;
  }
  const Eigen::MatrixXd root_p = v * root.asDiagonal() * v.transpose();
  const Eigen::MatrixXd over_root_p = v * root.cwiseInverse().asDiagonal() * v.transpose();
  const Eigen::MatrixXd root_n =
      of_n.vectors * of_n.values.cwiseMax(0).cwiseSqrt().asDiagonal() * of_n.vectors.transpose();
  auto [w, s, right] = svd(root_p * root_n);
  const Eigen::MatrixXd modulus = w * s.asDiagonal() * w.transpose();
  Eigen::VectorXd seen(size);
  for (Eigen::Index i = 0; i < size; ++i) {
    seen(i) = s(i) > kUndetermined * local_size(modulus, w.col(i)) ? 1 : 0;
  }
  s = s.cwiseProduct(seen).cwiseSqrt();
  Matrix<double> result = over_root_p * w * s.asDiagonal() * w.transpose();
  if (seen.minCoeff() == 1) return result;
  // The rest is what P^1/2 W does not reach, carried to the complement of W.
  Eigen::MatrixXd reached(size, 0), others(size, 0);
  for (Eigen::Index i = 0; i < size; ++i) {
    Eigen::MatrixXd& side = seen(i) == 1 ? reached : others;
    side.conservativeResize(Eigen::NoChange, side.cols() + 1);
    side.rightCols(1) = seen(i) == 1 ? Eigen::VectorXd(root_p * w.col(i)) : w.col(i);
  }
  if (reached.cols() > 0) {
    const Eigen::MatrixXd basis = svd(reached).u;
    const Svd polar = svd(others - basis * (basis.transpose() * others));
    result += polar.u * polar.v.transpose() * others.transpose();
  } else {
    result.setIdentity();
  }
  return result;
}

// The Gram matrices of one tensor axis, block by block, and what acts there.
struct Side {
  std::vector<const AxisPart*> parts;
  Matrix<double> grams;  // [blocks * width, width]
};

class Balancer {
 public:
  Balancer(const Symmetry& symmetry, const Parameters<double>& tensors) : symmetry_(symmetry) {
    for (const auto& [name, tensor] : tensors) {
      const TensorAxes& axes = symmetry.tensors.at(name);
      add(axes.rows, tensor.transpose());
      add(axes.cols, tensor);
    }
  }

  Element run() {
    std::vector<const Space*> spaces;
    for (const std::size_t place : places_) {
      const Space& space = symmetry_.spaces[place];
      if (has_two_sides(space)) spaces.push_back(&space);
    }
    // Spaces that meet on an axis disturb one another; alone, one sweep is exact.
    Element element;
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      double moved = 0;
      for (const Space* space : spaces) moved = std::max(moved, balance_space(*space, element));
      if (moved < kConverged) break;
    }
    return element;
  }

 private:
  static bool is_gauge(const Space& space) {
    return (space.category == Category::qk || space.category == Category::vo ||
            space.category == Category::ffn) &&
           space.dimension() > 0;
  }

  // `rows` has the axis in its columns.
  void add(const Axis& axis, const Matrix<double>& rows) {
    Side side;
    const Space* first = nullptr;
    for (const auto& part : axis) {
      const Space& space = *symmetry_.find_space(part.space);
      const bool counts = part.take == AxisPart::Take::whole ||
                          part.take == AxisPart::Take::diagonal ||
                          part.take == AxisPart::Take::absolute;
      if (!counts || !is_gauge(space)) continue;
      if (first == nullptr) first = &space;
      side.parts.push_back(&part);
      places_.insert(symmetry_.index->spaces.at(space.name));
    }
    if (first == nullptr) return;
    const auto width = first->width();
    side.grams.resize(rows.cols(), width);
    if (width == 1) side.grams.col(0) = rows.colwise().squaredNorm().transpose();
    for (Eigen::Index at = 0; width > 1 && at < rows.cols(); at += width) {
      const auto block = rows.middleCols(at, width);
      side.grams.middleRows(at, width) = block.transpose() * block;
    }
    sides_.push_back(std::move(side));
  }

  // Otherwise only the infinite or zero length is extreme.
  bool has_two_sides(const Space& space) const {
    bool plain = false, dual = false;
    for (const auto& side : sides_) {
      for (const auto* part : side.parts) {
        if (part->space == space.name) (part->dual ? dual : plain) = true;
      }
    }
    return plain && dual;
  }

  template <class Use>
  void for_sides(const Space& space, const Use& use) {
    for (auto& side : sides_) {
      for (const auto* part : side.parts) {
        if (part->space != space.name) continue;
        // Query heads share what their kv head has.
        const auto width = space.width();
        const auto share = side.grams.rows() / space.size();
        for (Eigen::Index at = 0; at < side.grams.rows(); at += width) {
          use(at / width / share, part->dual, side.grams.middleRows(at, width));
        }
      }
    }
  }

  double balance_space(const Space& space, Element& element) {
    const auto width = space.width();
    Matrix<double> plain = Matrix<double>::Zero(space.size(), width), dual = plain;
    for_sides(space, [&](std::int64_t block, bool is_dual, const auto& gram) {
      (is_dual ? dual : plain).middleRows(block * width, width) += gram;
    });
    Matrix<double> blocks(space.size(), width);
    const auto project = [&](const Matrix<double>& matrix) {
      return std::visit([&](const auto& group) { return group.project(matrix); }, space.group);
    };
    for (Eigen::Index at = 0; at < space.size(); at += width) {
      blocks.middleRows(at, width) = project(
          balancing(project(plain.middleRows(at, width)), project(dual.middleRows(at, width))));
    }
    const BlockMap<double> map(space.count, width, {}, std::move(blocks));
    const BlockMap<double> dual_map = map.dual();
    for_sides(space, [&](std::int64_t block, bool is_dual, auto gram) {
      const Matrix<double> a = (is_dual ? dual_map : map).block(block);
      gram = (a.transpose() * gram * a).eval();
    });
    element.maps[space.name] = map * map_of(symmetry_, element, space);
    return distance(map, space.identity());
  }

  const Symmetry& symmetry_;
  std::vector<Side> sides_;
  std::set<std::size_t> places_;  // of the spaces that act there
};

}  // namespace

Element balance(const Symmetry& symmetry, const Parameters<double>& tensors) {
  return Balancer(symmetry, tensors).run();
}

}  // namespace regauge
