#pragma once

namespace regauge {

// Where recover() takes a number for rounding, or a direction for unknown: value, unit, reason.
// What is recovered is a guess that compare() judges, so a wrong value here makes "undecided" or
// "not the same" of equal models, never "the same" of others. Edges: recovery_test (all families,
// exact and rounded), degenerate_test (zero heads, equal neurons, unused directions),
// anchors_test, test_honest_pairs.

// Of the relative rounding of the numbers: from here on floats do as well as doubles ...
inline constexpr double kCoarse = 1e-5;
// ... and from here on the average over all vectors is wanted, not over a few of them.
inline constexpr double kQuantised = 3e-3;

// The stream. Squared, of what a direction has on average: less is unknown. Doubles have no more
// digits; so many times the squared rounding is mere rounding; but this much is always enough,
// since many vectors tell a direction however coarse each is.
inline constexpr double kSingular = 1e-13;
inline constexpr double kBlurred = 1000;
inline constexpr double kTellsDirection = 0.01;
// Reciprocal condition of the fit: below it embedding and head alone do not determine the stream.
inline constexpr double kLeastDetermined = 1e-3;
// Of what is read of a tensor: with more rounding than this it counts less.
inline constexpr double kMostRounding = 0.1;
// Times rounding: smaller entries count as 0.
inline constexpr double kClearedRounding = 8;

// Signatures of heads and neurons. Of all of them: a column that has less is mere rounding.
inline constexpr double kNothing = 1e-6;
// Of their mean square: a neuron may be scaled down by what others are scaled up, so a short vector
// is no rounding of others as long as a float has digits for it.
inline constexpr double kNoSquare = 1e-24;
// Times, in squares: how much nearer another place must be for a row to leave its own.
inline constexpr double kLeavesItsPlace = 2;
// Rows as near as this, or as this many times rounding, are equal.
inline constexpr double kEqual = 1e-5;
inline constexpr double kEqualRounding = 16;

// Inside heads. Squared, of the largest column: what has less left of itself is a combination of
// others.
inline constexpr double kSpan = 1e-5;
// Of the largest eigenvalue: the pull towards a member of the group that keeps equations solvable;
// times that pull: an eigenvalue below leaves a direction undetermined.
inline constexpr double kLeastPull = 1e-13;
inline constexpr double kUndeterminedBelow = 100;
// Of the largest entry: below it a matrix does not tell where a coordinate behind a QK-norm goes.
inline constexpr double kTellsPlace = 1e-5;

// Constants. Times, in the mean square: where a tensor's rounding is enlarged by more, the bias
// that takes up its constant knows the constant better.
inline constexpr double kMuchLarger = 2;

}  // namespace regauge
