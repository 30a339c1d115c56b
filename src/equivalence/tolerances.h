#pragma once

namespace regauge {

// What separates rounding from a change. Value, unit, reason; the test that fixes the edge.

// In place, and where an element only permutes numbers and changes their signs: units of the
// largest error that rounding to nearest makes. Sums of decoded numbers are exact but for the last
// bits of double.
inline constexpr double kHalfUnitSlack = 1e-9;
// Shown for tensors of one type that are not equal, however near (units as above).
inline constexpr double kDiffers = 2;
// Two copies that were computed apart are off by so many times the rounding of both at most, as
// a whole: both were rounded, and what was rounded comes from rounded numbers. tests: test_canon.
inline constexpr double kRewrittenTwice = 8;
// Where both models are only known as roundings of a third, or an element moves the rounding: of
// the tensor's size. Rounding that is more hides changes that matter, unless it is no more than so
// many times what the tensor's own type makes of any tensor. tests: hidden_test, test_allowances.
inline constexpr double kMostHidden = 0.03;
inline constexpr double kMostHiddenByType = 1.2;
// Types that round by more than this (ternary numbers) hide whole rows that were exchanged.
inline constexpr double kTooCoarse = 0.5;

// Numbers that a quantiser with an importance matrix may have cut off at the end of their block, of
// all of a tensor; llama.cpp cuts off about one in a thousand. tests: test_llama_cpp_quantiser.
inline constexpr double kMostCutOff = 0.01;
// Of what numbers of types with codebooks were made: twice the product of a stretch of both, of the
// sum of their squares. Independent ones are at 0 +- 0.06; the limit is chosen well above, and
// llama.cpp's own have not been measured against it.
// tests: test_gguf_types.
inline constexpr double kAlikeStretch = 0.3;

// What a calibrated quantiser makes of a matrix beyond rounding to the nearest code, in units of
// that rounding, as root mean squares: GPTQ's compensation about 1.5 to 3.
inline constexpr double kMostByCalibration = 5;

// Moved tensors, in units of the predicted standard deviation.
// The whole tensor's residual: rounding is 1, and the element's own uncertainty adds to it.
inline constexpr double kAcceptedWhole = 2;
// A row or a column, likewise, beyond what chance makes of the largest of many.
inline constexpr double kAcceptedRow = 1.8;
// The least variance of a row, a column or an entry, of the average one: behind a gain of almost
// zero the element's own uncertainty is more than the rounding. tests: test_diff_quantised.
inline constexpr double kLeastShare = 0.1;
// A single entry of a tensor, beyond the largest of many normal numbers.
inline constexpr double kAcceptedEntry = 1.6;
// The largest singular value, in units of that of independent numbers.
inline constexpr double kAcceptedDirection = 1.6;

// Honest copies that are made where a tensor is in doubt, and how many times as much as in the
// worst of them may stand out. More are made while a tensor is within kCloseToHonest times that.
// tests: test_honest_pairs.
inline constexpr int kHonestCopies = 3, kMostHonestCopies = 16;
inline constexpr double kLikeHonest = 2;
inline constexpr double kCloseToHonest = 4;
// For vectors: they may be off by the rounding of a single number, a small gain's, which is next to
// nothing in one copy of ten.
inline constexpr double kCloseVector = 32;
// Where an honest copy is off by so much of a matrix, nothing can be said of that part of a layer;
// where rounding explains so much of a tensor, nothing of that tensor.
inline constexpr double kHopeless = 0.2;

// A vector (gain, bias), in units of the perturbation that rounding makes of it: it may take up the
// errors of several matrices. Of the whole, and of its largest number.
inline constexpr double kAcceptedVector = 6;
inline constexpr double kAcceptedVectorEntry = 3;
// Variances: see Comparison::constant_share.
inline constexpr double kConstantShare = 4;
// Errors of the arithmetic, of a number's size.
inline constexpr double kDoubleDigits = 1e-13;
inline constexpr double kFloatDigits = 3e-7;

}  // namespace regauge
