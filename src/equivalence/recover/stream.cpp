#include "stream.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "action/branch_size.h"
#include "equivalence/recover/tolerances.h"
#include "equivalence/stream_vectors.h"
#include "numerics/decompositions.h"
#include "numerics/dense.h"
#include "numerics/polar.h"

namespace regauge {
namespace {

// What a direction must have, of what one has on average, to be known.
double least_known(double rounding) {
  return std::max(kSingular, std::min(kTellsDirection, kBlurred * rounding * rounding));
}

// Coordinates of b to the nearest of a, up to a sign of each or one common sign.
struct NearestCoordinates {
  std::vector<std::int64_t> to;
  Matrix<double> signs;
  double cost = 0;
  std::vector<bool> clear;  // by coordinate of a: no other one was nearly as near
};
enum class Sign { each, same, opposite };

NearestCoordinates nearest_coordinates(const StreamCorrelation& sum, Sign sign, double rounding) {
  const auto size = sum.cross.rows();
  NearestCoordinates result{std::vector<std::int64_t>(static_cast<std::size_t>(size)),
                            Matrix<double>::Ones(size, 1), 0,
                            std::vector<bool>(static_cast<std::size_t>(size))};
  std::vector<bool> used(static_cast<std::size_t>(size));
  for (Eigen::Index i = 0; i < size; ++i) {
    Eigen::Index best = -1;
    double nearest = 0, second = std::numeric_limits<double>::infinity();
    for (Eigen::Index j = 0; j < size; ++j) {
      const double c = sum.cross(i, j);
      const double match = sign == Sign::each ? std::abs(c) : sign == Sign::same ? c : -c;
      const double distance = sum.squares_b(i) + sum.squares_a(j) - 2 * match;
      if ((best >= 0 && distance >= nearest) || used[static_cast<std::size_t>(j)]) {
        second = std::min(second, distance);
      } else {
        if (best >= 0) second = std::min(second, nearest);
        best = j;
        nearest = distance;
      }
    }
    const double size_i = sum.squares_b(i) + sum.squares_a(best);
    const double least = least_known(rounding) * size_i;
    used[static_cast<std::size_t>(best)] = true;
    result.to[static_cast<std::size_t>(i)] = best;
    result.clear[static_cast<std::size_t>(best)] = second > least && second > 4 * nearest;
    if (sign == Sign::each && sum.cross(i, best) < 0) result.signs(i, 0) = -1;
    result.cost += nearest;
  }
  return result;
}

StreamFit fit_signed_permutation(const Symmetry& symmetry, const Space& space,
                                 const StreamCorrelation& sum, double rounding) {
  const auto size = space.size();
  const bool has_signs = space.log2_components() > log2_factorial(size);
  NearestCoordinates best = nearest_coordinates(sum, has_signs ? Sign::each : Sign::same, rounding);
  bool reversed = false;
  if (symmetry.find_space(sum.stream + ".sign") != nullptr) {
    NearestCoordinates other = nearest_coordinates(sum, Sign::opposite, rounding);
    if (other.cost < best.cost) {
      best = std::move(other);
      reversed = true;
    }
  }
  const auto clear = std::count(best.clear.begin(), best.clear.end(), true);
  Matrix<double> rows = Matrix<double>::Zero(clear, size);
  Eigen::Index row = 0;
  for (Eigen::Index j = 0; j < size; ++j) {
    if (best.clear[static_cast<std::size_t>(j)]) rows(row++, j) = 1;
  }
  return {BlockMap<double>(size, 1, std::move(best.to), has_signs ? best.signs : Matrix<double>()),
          reversed, clear == size ? Known(size) : Known(std::move(rows)),
          clear == size ? 1.0 : 0.0};
}

// From below: by powers of m^T m.
double largest_singular_value(const Matrix<double>& m) {
  Random random(0, "largest singular value");
  Eigen::VectorXd v(m.cols());
  for (auto& entry : v) entry = random.normal();
  double value = 0;
  for (int i = 0; i < 10; ++i) {
    v.normalize();
    const Eigen::VectorXd image = m * v;
    value = image.norm();
    v = m.transpose() * image;
  }
  return value;
}

StreamFit fit_rotation(const Space& space, const Orthogonal& group, const StreamCorrelation& sum,
                       double rounding) {
  const auto size = space.size();
  // What must stay is made to, exactly: nothing leads there or away from it.
  const Matrix<double>& fixed = group.fixed();
  Matrix<double> cross = sum.cross;
  if (fixed.rows() > 0) {
    cross -= fixed.transpose() * (fixed * cross);
    cross -= (cross * fixed.transpose()).eval() * fixed;
    cross += sum.cross.norm() * fixed.transpose() * fixed;
  }
  const double least = least_known(rounding);
  Matrix<double> map = cross;
  const double condition = make_orthogonal(map, rounding > kCoarse);
  if (condition > 0) {
    // cross = map H, and the trace of H is the sum of the singular values.
    const double average = map.cwiseProduct(cross).sum() / static_cast<double>(size);
    const double determined = condition * largest_singular_value(cross) / average;
    if (determined > least) {
      return {BlockMap<double>(1, size, {}, map), false, Known(size), determined};
    }
  }
  const Svd parts = svd(cross);
  const double average = parts.values.mean();
  const auto known = (parts.values.array() > least * average).count();
  return {BlockMap<double>(1, size, {}, product(parts.u, parts.v.transpose())), false,
          known == size ? Known(size) : Known(Matrix<double>(parts.v.leftCols(known).transpose())),
          average > 0 ? parts.values(size - 1) / average : 0};
}

}  // namespace

StreamCorrelation::StreamCorrelation(const Symmetry& symmetry, Enlarged enlarged, std::string of)
    : stream(std::move(of)), enlarged_(std::move(enlarged)) {
  const Space* space = symmetry.find_space(stream);
  const auto size = space == nullptr ? 0 : space->size();
  cross = Matrix<double>::Zero(size, size);
  squares_a = squares_b = Eigen::VectorXd::Zero(size);
}

template <class Scalar>
void StreamCorrelation::add(const Symmetry& symmetry, const Parameters<Scalar>& a,
                            const Parameters<Scalar>& b, std::int64_t most) {
  if (cross.size() == 0) return;
  for (const auto& [name, tensor] : a) {
    if (tensor.rows() == 1) continue;  // in standard form perhaps zero but for rounding
    const TensorAxes& axes = symmetry.tensors.at(name);
    const auto factor = enlarged_.find(name);
    const double weight = factor == enlarged_.end() ? 1 : 1 / factor->second;
    for (const int axis : {0, 1}) {
      for (const auto& part : axis == 0 ? axes.rows : axes.cols) {
        if (part.space != stream || part.take != AxisPart::Take::whole) continue;
        add(stream_vectors(symmetry, name, axis, tensor, most),
            stream_vectors(symmetry, name, axis, b.at(name), most), weight);
      }
    }
  }
}

template void StreamCorrelation::add(const Symmetry&, const Parameters<float>&,
                                     const Parameters<float>&, std::int64_t);
template void StreamCorrelation::add(const Symmetry&, const Parameters<double>&,
                                     const Parameters<double>&, std::int64_t);

template <class Scalar>
void StreamCorrelation::add(const Matrix<Scalar>& rows_a, const Matrix<Scalar>& rows_b,
                            double weight) {
  const double size_a = rows_a.norm(), size_b = rows_b.norm();
  if (cross.size() == 0 || size_a == 0 || size_b == 0) return;
  const double entries = weight * static_cast<double>(rows_a.size());
  cross +=
      product_transposed(rows_b, rows_a).template cast<double>() * (entries / (size_a * size_b));
  squares_a += rows_a.colwise().squaredNorm().transpose().template cast<double>() *
               (entries / (size_a * size_a));
  squares_b += rows_b.colwise().squaredNorm().transpose().template cast<double>() *
               (entries / (size_b * size_b));
}

template void StreamCorrelation::add(const Matrix<float>&, const Matrix<float>&, double);
template void StreamCorrelation::add(const Matrix<double>&, const Matrix<double>&, double);

void StreamCorrelation::move(const StreamFit& fit) {
  const BlockMap<double>& map = fit.map;
  map.apply(cross, 0);
  if (fit.reversed) cross = -cross;
  if (map.width() > 1) return;  // squares count for permutations only
  const Eigen::VectorXd before = squares_b;
  for (Eigen::Index i = 0; i < before.size(); ++i) squares_b(map.target(i)) = before(i);
}

StreamFit fit_stream(const Symmetry& symmetry, const StreamCorrelation& sum, double rounding) {
  const Space& space = *symmetry.find_space(sum.stream);
  const auto* group = std::get_if<Orthogonal>(&space.group);
  return group != nullptr ? fit_rotation(space, *group, sum, rounding)
                          : fit_signed_permutation(symmetry, space, sum, rounding);
}

bool recover_scales(const Symmetry& symmetry, const Parameters<double>& a,
                    const Parameters<double>& b, Element& found) {
  bool any = false;
  if (a.empty()) return false;
  const std::int64_t layer = symmetry.index->tensors.at(a.begin()->first).layer;
  for (const auto& spec : symmetry.layer(layer).tensors) {
    if (!a.contains(spec.name)) continue;
    const TensorAxes& axes = symmetry.tensors.at(spec.name);
    for (const int axis : {0, 1}) {
      for (const auto& part : axis == 0 ? axes.rows : axes.cols) {
        const Space& space = *symmetry.find_space(part.space);
        // Signs of the stream are those of the standard form.
        const bool length = space.category == Category::scales && !space.is_signs() &&
                            part.take != AxisPart::Take::signs;
        if (!length || part.dual || found.maps.contains(space.name)) continue;
        const Matrix<double>& in_a = a.at(spec.name);
        const Matrix<double>& in_b = b.at(spec.name);
        Matrix<double> ratios(space.count, 1);
        for (Eigen::Index i = 0; i < space.count; ++i) {  // one number, or one per row
          const bool one = space.count == 1;
          const double size_a = one ? branch_size(symmetry, spec.name, a) : in_a.row(i).norm();
          const double size_b = one ? branch_size(symmetry, spec.name, b) : in_b.row(i).norm();
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
