#pragma once

#include <string>
#include <vector>

#include "calculus_system.h"
#include "regauge/arch/architecture.h"

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
// What a layer norm does first: x less its mean.
Dense centring(Index n);
// The same number n times.
Forms same(const Forms& entry, Index n);
// y = x W on columns [first, first + count) of the tensor.
Wire product(const Wire& x, const Tensor& weight, Index first, Index count);
void add_to_base(Wire& wire, const Tensor& bias);
// A wire with an affine change, in coordinates of its own: those of the affine hull of its values.
Wire affine_wire(const Dense& directions, const Dense& base, const AffineChange& change);
// One vector e and its change, through the derivative of a norm that sees e `centre`: e^ gain.
Wire norm_of_row(const Tensor& e, const Tensor& gain, const Dense& centre, double eps);
// A diagonal map: x diag(gain).
Wire times_gain(const Wire& x, const Tensor& gain);
// With a bias of each expert, weighed as the expert is. Weights that sum to one make a constant of
// what all biases have in common.
Wire with_expert_biases(const Wire& out, const Tensor& biases, bool sum_to_one);
// What two branches write, which have one constant in common: that of the first.
Wire beside(const Wire& first, const Wire& second);
// x^ gain, x^ of length one in the seen hull of a norm's input, dx^ = x^ turn.
Wire turned_units(const Dense& hull, const Dense& seen, const Forms& turn, const Tensor& gain);
// The wire changes by any affine map of itself, whatever its own change is.
Wire with_a_change_of_its_own(System& system, const Wire& x);
// The wire changes by an affine map of itself, and is handed on as such.
Wire affine(System& system, const Wire& x);
// An rms norm of its own: the vector may turn and, where lengths are forgotten, scale; its
// direction times the gain is handed on.
Wire normed(System& system, const Wire& x, const Tensor& gain, bool forgets_length);
// A layer norm of what is as wide as it likes.
Wire layer_normed(System& system, const Wire& x, const Tensor& gain, const Tensor& bias,
                  bool forgets_length);
// Each coordinate scales by itself: the scales, a single row.
Forms scaled(System& system, const Wire& x);
// Scores change by nothing, or by a number that each row has in common.
void require_scores(System& system, const Forms& change, bool forgets_common,
                    System::Stage common = System::sublayer);
// Through an activation: a smooth one passes nothing on, ReLU a positive scale per coordinate, a
// squared one its square.
Wire activated(System& system, Activation kind, const Wire& x);
// What neurons write: an activation of one branch, times the other where there is a gate. What is
// clamped may not even scale.
Wire fired(System& system, const FeedForward& f, const Wire& gate, const Wire& up, bool clamped);
// What is added to the stream where vectors stand fills its space and follows it, as far as a norm
// sees: the hull with those rows.
Dense added(System& system, const Dense& hull, const Tensor& rows, const Similarity& stream,
            const Dense& seen);
// A softmax average is an affine combination of values: it passes their change on unchanged,
// through the rows of o from `row` on. With a sink it is some share of one, another for each query:
// the constant counts as well.
void gather(const Wire& v, const Tensor& o, Index row, bool sink, Wire& out, Wire& constant);
// The stream times a number: norms forget it, or (with eps) they do not.
Similarity scaled_stream(System& system, const Similarity& stream, const Tensor& number,
                         bool forgets_length);
// When a parameter's changes are solved for.
// `again`: a layer's parameters are in the equations of every pass.
System::Stage stage_of(const std::string& name, bool again);
// Every sum of one row of each table.
std::vector<Tensor> sums_of_rows(const std::vector<Tensor>& tables);

}  // namespace regauge::calculus_system
