#include "symmetry/calculus_wires.h"

#include <cmath>

namespace regauge::calculus_system {

Dense with_row(const Dense& top, const Dense& bottom) {
  Dense result(top.rows() + bottom.rows(), top.cols());
  result << top, bottom;
  return result;
}

Forms same(const Forms& entry, Index n) { return entry * Dense::Ones(1, n); }

void add_to_base(Wire& wire, const Tensor& bias) {
  wire.value.row(wire.base()) += bias.value.row(0);
  for (Index j = 0; j < wire.value.cols(); ++j) {
    const Form& form = bias.change(0, j);
    auto& target = wire.change(wire.base(), j);
    target.insert(target.end(), form.begin(), form.end());
  }
}

Wire affine_wire(const Dense& directions, const Dense& base, const AffineChange& change) {
  const Dense basis = row_basis(directions);
  const Dense point = basis.rows() == base.cols() ? Dense::Zero(1, base.cols()) : base;
  return {with_row(basis, point),
          stack(basis * change.linear, point * change.linear + change.constant)};
}

Wire norm_of_row(const Tensor& e, const Tensor& gain, const Dense& centre, double eps) {
  const auto d = static_cast<double>(centre.rows());
  const Dense scale = gain.value.row(0).asDiagonal();
  const Dense centred = e.value * centre;
  const double length = std::sqrt(centred.squaredNorm() / d + eps);
  const Dense unit = centred / length;
  const Dense derivative = (centre - unit.transpose() * unit / d) / length;
  return {unit * scale, e.change * (derivative * scale) + unit * diagonal(gain.change)};
}

std::vector<Tensor> sums_of_rows(const std::vector<Tensor>& tables) {
  std::vector<Tensor> sums = {
      {Dense::Zero(1, tables[0].value.cols()), Forms(1, tables[0].value.cols())}};
  for (const auto& table : tables) {
    std::vector<Tensor> longer;
    for (const auto& sum : sums) {
      for (Index i = 0; i < table.value.rows(); ++i) {
        longer.push_back({sum.value + table.value.row(i), sum.change + table.change.row(i)});
      }
    }
    sums = std::move(longer);
  }
  return sums;
}

}  // namespace regauge::calculus_system
