#pragma once

#include <complex>

#include "regauge/symmetry/rotary.h"

namespace regauge {

// The part of a matrix from pair p to pair q that commutes with rotations is a complex number:
// {{re, q.sign im}, {-p.sign im, p.sign q.sign re}}.
std::complex<double> complex_part(const Matrix<double>& matrix, const RotaryClasses::Pair& p,
                                  const RotaryClasses::Pair& q);
void put_complex(Matrix<double>& matrix, const RotaryClasses::Pair& p, const RotaryClasses::Pair& q,
                 const std::complex<double>& z);

}  // namespace regauge
