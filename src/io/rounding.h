#pragma once

#include <cstddef>
#include <span>

#include "regauge/io/dtype.h"

namespace regauge {

// What rounding to a stored type leaves open, number by number. A float is known to half a unit in
// its last place, a quantised number to half the step of its own block and half a unit of F16,
// which the quantiser may have read it from. A block whose codes do not use their range, as the
// format's own quantiser makes them do, has the step that they need and not the one that it states:
// whoever writes a file could otherwise choose what is overlooked. The bounds hold for what
// llama.cpp writes without an importance matrix (tests/python/test_llama_cpp_quantiser.py).

// The number that was rounded to values[i] lies in [values[i] - below[i], values[i] + above[i]].
// The first and the last code of a block reach further, by what the quantiser may have cut off.
// Integers are exact. `values` are the decoded bytes. The spans must agree in length, else
// UsageError.
void rounding_bounds(DType dtype, std::span<const std::byte> bytes, std::span<const double> values,
                     std::span<double> below, std::span<double> above);

// Whether a quantiser chooses the codes of a block together, from a codebook (IQ1, IQ2, IQ3), or
// keeps signs only (Q1_0): the bounds of a single number are then a guess or say next to nothing.
bool codes_are_joint(DType dtype);

// Where a number has the first or the last code of its block, the direction in which a quantiser
// with an importance matrix may have cut it off, by any amount: -1 below, 1 above; 0 elsewhere, and
// kBothEnds where the step is zero. The spans must agree in length, else UsageError.
inline constexpr signed char kBothEnds = 2;
void block_ends(DType dtype, std::span<const std::byte> bytes, std::span<const double> values,
                std::span<signed char> ends);

// The variance of the rounding error of each number: that of an even distribution over the unit or
// the step. The spans must agree in length, else UsageError.
template <class Scalar>
void rounding_variances(DType dtype, std::span<const std::byte> bytes, std::span<Scalar> variances);

}  // namespace regauge
