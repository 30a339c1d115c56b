#include "calculus_wires.h"

#include <cmath>

namespace regauge::calculus_system {

Dense with_row(const Dense& top, const Dense& bottom) {
  Dense result(top.rows() + bottom.rows(), top.cols());
  result << top, bottom;
  return result;
}

Dense centring(Index n) {
  return Dense::Identity(n, n) - Dense::Constant(n, n, 1.0 / static_cast<double>(n));
}

Forms same(const Forms& entry, Index n) { return entry * Dense::Ones(1, n); }

Wire product(const Wire& x, const Tensor& weight, Index first, Index count) {
  const Dense w = weight.value.middleCols(first, count);
  const Forms dw = weight.change.block(0, first, weight.value.rows(), count);
  return {x.value * w, x.change * w + x.value * dw};
}

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

Wire times_gain(const Wire& x, const Tensor& gain) {
  const Dense scale = gain.value.row(0).asDiagonal();
  return {x.value * scale, x.change * scale + x.value * diagonal(gain.change)};
}

Wire with_expert_biases(const Wire& out, const Tensor& biases, bool sum_to_one) {
  const Index n = out.base(), count = biases.value.rows();
  Dense value = biases.value;
  Forms change = biases.change;
  Wire base{out.value.row(n), out.change.row(n)};
  if (sum_to_one) {
    const Dense mean = Dense::Constant(1, count, 1.0 / static_cast<double>(count));
    const Dense rest = Dense::Identity(count, count) - Dense::Ones(count, 1) * mean;
    base.value += mean * value;
    base.change += mean * change;
    value = rest * value;
    change = rest * change;
  }
  return {with_row(with_row(out.value.topRows(n), value), base.value),
          stack(stack(out.change.top(n), change), base.change)};
}

Wire with_a_change_of_its_own(System& system, const Wire& x) {
  const Index d = x.value.cols();
  return affine_wire(x.value.topRows(x.base()), x.value.row(x.base()),
                     {system.wire(d, d, System::sublayer), system.wire(1, d, System::sublayer)});
}

Wire affine(System& system, const Wire& x) {
  const Index d = x.value.cols();
  const AffineChange change{system.wire(d, d, System::sublayer),
                            system.wire(1, d, System::sublayer)};
  const Forms excess = x.change - x.value * change.linear;
  system.require(excess.top(x.base()));
  system.require(excess.row(x.base()) - change.constant);
  return affine_wire(x.value.topRows(x.base()), x.value.row(x.base()), change);
}

Wire layer_normed(System& system, const Wire& x, const Tensor& gain, const Tensor& bias,
                  bool forgets_length) {
  const Index d = x.value.cols();
  const Dense seen = row_basis(centring(d)).transpose();
  const Forms turn = seen * system.skew(d - 1, System::shared) * seen.transpose();
  Forms total = turn;
  if (forgets_length) total += diagonal(same(system.wire(1, 1, System::shared), d));
  system.require((x.change - x.value * total) * seen);
  Wire out = turned_units(x.value, seen, turn, gain);
  add_to_base(out, bias);
  return out;
}

Wire normed(System& system, const Wire& x, const Tensor& gain, bool forgets_length) {
  const Index d = x.value.cols();
  const Forms turn = system.skew(d, System::sublayer);
  Forms total = turn;
  if (forgets_length) total += diagonal(same(system.wire(1, 1, System::sublayer), d));
  system.require(x.change - x.value * total);
  const Dense scale = gain.value.row(0).asDiagonal();
  const Dense unit = row_basis(x.value);
  return {with_row(unit * scale, Dense::Zero(1, d)),
          stack(unit * (turn * scale + diagonal(gain.change)), Forms(1, d))};
}

Forms scaled(System& system, const Wire& x) {
  const Forms scales = system.wire(1, x.value.cols(), System::sublayer);
  system.require(x.change - x.value * diagonal(scales));
  return scales;
}

Wire beside(const Wire& first, const Wire& second) {
  const Index n = first.base(), m = second.base();
  return {with_row(with_row(first.value.topRows(n), second.value.topRows(m)), first.value.row(n)),
          stack(stack(first.change.top(n), second.change.top(m)), first.change.row(n))};
}

Wire turned_units(const Dense& hull, const Dense& seen, const Forms& turn, const Tensor& gain) {
  const Dense unit = row_basis(row_basis(hull * seen) * seen.transpose());
  const Dense scale = gain.value.row(0).asDiagonal();
  return {with_row(unit * scale, Dense::Zero(1, scale.cols())),
          stack(unit * (turn * scale + diagonal(gain.change)), Forms(1, scale.cols()))};
}

void require_scores(System& system, const Forms& change, bool forgets_common,
                    System::Stage common) {
  if (!forgets_common) return system.require(change);
  const Dense ones = Dense::Ones(1, change.cols());
  system.require(change - system.wire(change.rows(), 1, common) * ones);
}

Wire activated(System& system, Activation kind, const Wire& x) {
  const int degree = kind == Activation::relu_squared ? 2 : kind == Activation::relu ? 1 : 0;
  const Index m = x.value.cols();
  Wire out{with_row(Dense::Identity(m, m), Dense::Zero(1, m)), Forms(m + 1, m)};
  if (degree > 0) {
    out.change = stack(diagonal(degree * scaled(system, x)), Forms(1, m));
  } else {
    system.require(x.change);
  }
  return out;
}

Wire fired(System& system, const FeedForward& f, const Wire& gate, const Wire& up, bool clamped) {
  const Activation kind = f.limit > 0 ? Activation::silu : f.activation;
  Wire hidden = activated(system, kind, f.gated ? gate : up);
  if (!f.gated) return hidden;
  if (clamped) {
    system.require(up.change);
  } else {
    // The product with the gate is linear in each coordinate of the other branch.
    hidden.change += stack(diagonal(scaled(system, up)), Forms(1, up.value.cols()));
  }
  return hidden;
}

Dense added(System& system, const Dense& hull, const Tensor& rows, const Similarity& stream,
            const Dense& seen) {
  system.require((rows.change - rows.value * stream.total) * seen);
  return with_row(hull, rows.value);
}

void gather(const Wire& v, const Tensor& o, Index row, bool sink, Wire& out, Wire& constant) {
  const Index width = v.value.cols();
  const Dense rows = o.value.middleRows(row, width);
  const Dense value = v.value * rows;
  const Forms change = v.change * rows + v.value * o.change.block(row, 0, width, o.value.cols());
  const Index rest = v.base() + (sink ? 1 : 0);
  out.value = with_row(out.value, value.topRows(rest));
  out.change = stack(out.change, change.top(rest));
  if (sink) return;
  constant.value += value.row(v.base());
  constant.change += change.row(v.base());
}

Similarity scaled_stream(System& system, const Similarity& stream, const Tensor& number,
                         bool forgets_length) {
  if (!forgets_length) {
    system.require(number.change);
    return stream;
  }
  const Forms relative = (1 / number.value(0, 0)) * number.change;
  return {stream.turn, stream.total + diagonal(same(relative, stream.turn.rows()))};
}

System::Stage stage_of(const std::string& name, bool again) {
  if (again && layer_of(name) >= 0) return System::shared;
  if (name.find("norm.") != std::string::npos) return System::shared;
  const bool late = name.find("_conv.") != std::string::npos || name.ends_with("embed.positions");
  if (name.ends_with(".scale")) return System::shared;
  if (name.find(".table.map.") != std::string::npos ||
      name.find(".table.down.") != std::string::npos)
    return System::shared;
  if (name.ends_with("experts.scale.gain")) return System::sublayer;
  return late || name == "embed.types" ? System::sublayer : System::local;
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
