#include "gauge_fit.h"

#include <complex>

#include "numerics/decompositions.h"
#include "numerics/dense.h"
#include "numerics/polar.h"
#include "qk_norm_match.h"

namespace regauge {
namespace {

// One complex number per pair, and nothing else.
bool is_phases(const RotaryCommutant& group) {
  return 2 * static_cast<std::int64_t>(group.turning().size()) == group.size();
}

const RotaryCommutant* phases_of(const BlockGroup& group) {
  const auto* rotary = std::get_if<RotaryCommutant>(&group);
  return rotary != nullptr && is_phases(*rotary) ? rotary : nullptr;
}

Matrix<double> project(const BlockGroup& group, const Matrix<double>& m) {
  return std::visit([&](const auto& g) { return g.project(m); }, group);
}

BlockFit fit_phases(const RotaryCommutant& group, const Matrix<double>& cross) {
  BlockFit fit{Matrix<double>::Zero(cross.rows(), cross.cols()), 0};
  for (const auto& pairs : group.turning()) {
    const auto i = pairs.front().first;
    const std::complex<double> sum(cross(i, i) + cross(i + 1, i + 1),
                                   cross(i, i + 1) - cross(i + 1, i));
    const double size = std::abs(sum);
    const std::complex<double> z = size > 0 ? sum / size : 1;
    fit.block.block(i, i, 2, 2) << z.real(), z.imag(), -z.imag(), z.real();
    fit.value += size;
  }
  return fit;
}

}  // namespace

void hold_unused(Matrix<double>& cross) {
  constexpr double kUnused = 1e-9;
  cross.diagonal().array() += kUnused * cross.norm() + 1e-300;
}

BlockFit fit_block(const BlockGroup& group, const Matrix<double>& cross) {
  if (const auto* exchange = std::get_if<GainExchange>(&group)) {
    return fit_exchange(*exchange, cross, Matrix<double>::Zero(cross.rows(), cross.cols()));
  }
  if (const auto* phases = phases_of(group)) return fit_phases(*phases, cross);
  if (std::holds_alternative<Orthogonal>(group)) {
    Matrix<double> held = cross;
    hold_unused(held);
    BlockFit fit{polar_factor(held), 0};
    fit.value = fit.block.cwiseProduct(cross).sum();
    return fit;
  }
  // The group's matrices are an algebra's invertible ones, and an algebra holds the orthogonal
  // factors of its members.
  Matrix<double> inside = project(group, cross);
  hold_unused(inside);
  BlockFit fit{project(group, polar_factor(inside)), 0};
  fit.value = fit.block.cwiseProduct(cross).sum();
  return fit;
}

double best_value(const BlockGroup& group, const Matrix<double>& cross) {
  if (std::holds_alternative<GainExchange>(group)) return fit_block(group, cross).value;
  if (const auto* phases = phases_of(group)) return fit_phases(*phases, cross).value;
  // The sum of singular values.
  const bool turns = std::holds_alternative<Orthogonal>(group);
  const Matrix<double> inside = turns ? cross : project(group, cross);
  return eigenvalues(product_transposed(inside, inside)).cwiseMax(0).cwiseSqrt().sum();
}

template <class Scalar>
HeadCross::HeadCross(const Symmetry& symmetry, const Space& space, const Parameters<Scalar>& a,
                     const Parameters<Scalar>& b)
    : space_(&space) {
  const Space& leader = *symmetry.find_space(space.follows);  // query heads
  const auto heads = leader.count * space.width();
  Matrix<Scalar> shared = Matrix<Scalar>::Zero(space.size(), space.size());
  Matrix<Scalar> query = Matrix<Scalar>::Zero(heads, heads);
  for_axes(symmetry, a, space.name, [&](const std::string& name, int axis, const AxisPart& part) {
    if (part.take == AxisPart::Take::absolute) return;  // gains do not tell how a head was rotated
    add_cross(b.at(name), a.at(name), axis, part.lift.empty() ? shared : query);
  });
  shared_ = shared.template cast<double>();
  query_ = query.template cast<double>();
}

template HeadCross::HeadCross(const Symmetry&, const Space&, const Parameters<float>&,
                              const Parameters<float>&);
template HeadCross::HeadCross(const Symmetry&, const Space&, const Parameters<double>&,
                              const Parameters<double>&);

}  // namespace regauge
