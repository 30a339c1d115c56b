#pragma once

#include <string>
#include <vector>

#include "regauge/symmetry/element.h"

namespace regauge {

// Maps that carry b's tensors to a's, both in standard form, added to `found`. `limits` receives
// what the tensors do not determine.

// Tensors that live in the stream, compared coordinate by coordinate: the sum of b^T a over all
// that were added, each in units of its own size, and the squared lengths of the coordinates.
struct StreamCorrelation {
  explicit StreamCorrelation(const Symmetry& symmetry);
  void add(const Symmetry& symmetry, const Parameters<double>& a, const Parameters<double>& b);

  Matrix<double> cross;  // [D, D], or empty where the stream has no group
  Eigen::VectorXd squares_a, squares_b;
};

// The stream's map on top of `found`. Returns how well it is determined, from 1 down to 0.
double recover_stream(const Symmetry& symmetry, const StreamCorrelation& sum, Element& found,
                      std::vector<std::string>& limits);

// The lengths that norms forget, as far as these tensors show them: every factor that is not found
// yet and acts on one of them. True if there was any.
bool recover_scales(const Symmetry& symmetry, const Parameters<double>& a,
                    const Parameters<double>& b, Element& found);

}  // namespace regauge
