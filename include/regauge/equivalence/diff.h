#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "regauge/equivalence/compare.h"
#include "regauge/equivalence/describe.h"
#include "regauge/equivalence/diagnosis.h"

namespace regauge {

enum class Verdict {
  same,       // an element carries B to A, every tensor within what rounding explains
  perturbed,  // one carries B near to A: the same model, fine-tuned or damaged
  different,  // no element brings them near, or the architectures differ
  undecided   // none was found, but not every one could be tried
};
std::string_view verdict_name(Verdict verdict);

// What is said first, and never mixed (docs/promise.md).
enum class Statement {
  identical,          // every stored number is equal
  same_numbers,       // each number is the other's, or both are a third's, rounded to its own type
  other_coordinates,  // an element carries B to A
  not_the_same,
  undecided
};
std::string_view statement_name(Statement statement);  // "other-coordinates"
// Which of the first three it is, of models that are the same.
Statement statement_of_same(bool identity, const std::vector<TensorResidual>& residuals);

struct Diff {
  Verdict verdict = Verdict::undecided;
  Statement statement = Statement::undecided;
  std::vector<std::string> reasons;
  // What the two files declare differently without a difference of function: a tie, biases that are
  // zero, padding, folded norms. If there is any, `same` means: up to these.
  std::vector<std::string> declarations;
  std::vector<std::string> not_compared;  // files beside the weights, a line or none
  Architecture architecture;              // as which both were compared
  Element a_from_b;                       // the best that was found
  std::vector<Movement> movements;        // what it does, if it brings B near to A
  std::vector<TensorResidual> residuals;  // empty if the architectures differ
  Diagnosis diagnosis = {};               // empty unless diagnose() was asked
  // Why verify() could not confirm it, though it is the same; or empty.
  std::string no_certificate = {};
};

// Are A and B the same function? `same` rests on compare_in_place(), or on compare() or, for large
// models, compare_sketched() with the element that was found, whatever found it; verify() is the
// slow and plain judge. `patches_b` say what is read of B in another order than its file has it
// (tokenizer.h).
Diff diff(const Model& a, const Model& b, Progress& progress, const Patches& patches_b = {});

// Why B is not A, where diff() said so: known mistakes are tried until one explains it.
Diagnosis diagnose(const Model& a, const Model& b, const Diff& found, Progress& progress);

}  // namespace regauge
