#pragma once

#include "regauge/arch/parameters.h"

namespace regauge::testing {

// The place of the t-th of `rows` rows, those in front among them, from -1 to 1 on one axis of a
// square; 0 for those in front.
double place(const Architecture& architecture, Eigen::Index t, Eigen::Index rows, bool column);

// Rows of the dropped token become 0, and the others longer by as much.
void drop(std::int64_t token, const Matrix<double>& input, Matrix<double>& x);

// Adds what a head's pattern says of contacts: x + x^T, less rows' sums times columns' over the
// sum, where the first and the last token and those that end a protein (2) are left out.
void add_contacts(const Matrix<double>& tokens, double weight, const Matrix<double>& pattern,
                  Matrix<double>& sum);
// How likely they are, without the first and the last token.
Matrix<double> contacts(const Matrix<double>& sum, double bias);

}  // namespace regauge::testing
