#include "latent_matching.h"

#include "numerics/dense.h"
#include "numerics/nested.h"

namespace regauge {

LatentMatching::LatentMatching(const Symmetry& symmetry, const Space& space,
                               const Parameters<double>& a, const Parameters<double>& moved,
                               const Element& element, double similarity, double premium)
    : symmetry_(symmetry),
      space_(space),
      signs_(std::get<Scaling>(space.group).log2_components() > 0) {
  Eigen::VectorXd size_a = Eigen::VectorXd::Zero(space.count), size_b = size_a;
  for (const auto& [name, axes] : symmetry.tensors) {
    for (const int axis : {0, 1}) {
      for (const auto& part : axis == 0 ? axes.rows : axes.cols) {
        if (part.space != space.name) continue;
        places_.push_back({name, axis, signs_ && part.take == AxisPart::Take::whole});
        gathered_[name].setZero(a.at(name).rows(), a.at(name).cols());
        const auto sizes = [&](const Matrix<double>& tensor) -> Eigen::VectorXd {
          if (axis == 0) return tensor.rowwise().squaredNorm();
          return tensor.colwise().squaredNorm().transpose();
        };
        size_a += sizes(a.at(name));
        size_b += sizes(moved.at(name));
      }
    }
  }
  const auto inverse = [](const Eigen::VectorXd& squares) -> Eigen::VectorXd {
    return squares.cwiseMax(1e-30).cwiseSqrt().cwiseInverse();
  };
  // In the order of B's own blocks, without their signs.
  const BlockMap<double> map = map_of(symmetry, element, space);
  const auto own_order = [&](const Matrix<double>& products, bool odd) {
    const Matrix<double> cosines =
        inverse(size_b).asDiagonal() * products * inverse(size_a).asDiagonal();
    Matrix<double> latent(cosines.rows(), cosines.cols());
    for (std::int64_t i = 0; i < space.count; ++i) {
      const double sign = odd && map.has_blocks() && map.blocks()(i, 0) < 0 ? -1 : 1;
      latent.row(i) = sign * similarity * cosines.row(map.target(i));
      // Of a gated unit the odd part decides its sign, too.
      if (odd || !signs_) latent(i, map.target(i)) += sign * premium;
    }
    return latent;
  };
  even_ = own_order(products(moved, a, false), false);
  if (signs_) odd_ = own_order(products(moved, a, true), true);
}

Matrix<double> LatentMatching::products(const Parameters<double>& left,
                                        const Parameters<double>& right, bool odd) const {
  Matrix<double> sum = Matrix<double>::Zero(space_.count, space_.count);
  for (const auto& place : places_) {
    if (place.odd != odd) continue;
    const Matrix<double>& l = left.at(place.tensor);
    const Matrix<double>& r = right.at(place.tensor);
    if (place.axis == 1) {
      sum += product_transposed(l, r);
    } else {
      sum += product(l, r.transpose());
    }
  }
  return sum;
}

void LatentMatching::add(const Parameters<double>& slopes) {
  for (auto& [name, sum] : gathered_) sum += slopes.at(name);
}

void LatentMatching::rematch(const Parameters<double>& moved, double rate, Element& element) {
  const BlockMap<double> map = map_of(symmetry_, element, space_);
  const auto own_order = [&](const Matrix<double>& slope, bool odd) {
    Matrix<double> own(slope.rows(), slope.cols());
    for (std::int64_t i = 0; i < space_.count; ++i) {
      const double sign = odd && map.has_blocks() && map.blocks()(i, 0) < 0 ? -1 : 1;
      own.row(i) = sign * slope.row(map.target(i));
    }
    return own;
  };
  even_ += rate * adam_even_.direction(own_order(products(moved, gathered_, false), false));
  Matrix<double> preference = even_;
  if (signs_) {
    odd_ += rate * adam_odd_.direction(own_order(products(moved, gathered_, true), true));
    preference += odd_.cwiseAbs();
  }
  for (auto& [name, sum] : gathered_) sum.setZero();
  auto permutation = assign_rows(preference).target;
  Matrix<double> blocks = map.blocks();
  if (signs_ && blocks.size() == 0) blocks.setOnes(space_.count, 1);
  for (std::int64_t i = 0; signs_ && i < space_.count; ++i) {
    const bool negative = odd_(i, permutation[static_cast<std::size_t>(i)]) < 0;
    blocks(i, 0) = negative ? -std::abs(blocks(i, 0)) : std::abs(blocks(i, 0));
  }
  element.maps[space_.name] = {space_.count, 1, std::move(permutation), std::move(blocks)};
}

}  // namespace regauge
