#pragma once

#include <vector>

#include "symmetry/calculus_system.h"

namespace regauge::calculus_system {

// What flows, x = g value, and how it changes, dx = g change. The coordinates g of a wire are
// independent functions of the input except the last, which is the constant 1: the last row is a
// base point.
struct Wire {
  Dense value;   // r x d
  Forms change;  // r x d

  Index base() const { return value.rows() - 1; }
};

// A tensor of the model and its unknown change.
struct Tensor {
  Dense value;
  Forms change;
};

// What a norm passes on: x -> x + x (turn + scale), turn skew (and, for layer norms, orthogonal to
// 1).
struct Similarity {
  Forms turn;   // D x D
  Forms total;  // turn + scale
};

// x + x linear + constant.
struct AffineChange {
  Forms linear;
  Forms constant;
};

Dense with_row(const Dense& top, const Dense& bottom);
// The same number n times.
Forms same(const Forms& entry, Index n);
void add_to_base(Wire& wire, const Tensor& bias);
// A wire with an affine change, in coordinates of its own: those of the affine hull of its values.
Wire affine_wire(const Dense& directions, const Dense& base, const AffineChange& change);
// One vector e and its change, through the derivative of a norm that sees e `centre`: e^ gain.
Wire norm_of_row(const Tensor& e, const Tensor& gain, const Dense& centre, double eps);
// Every sum of one row of each table.
std::vector<Tensor> sums_of_rows(const std::vector<Tensor>& tables);

}  // namespace regauge::calculus_system
