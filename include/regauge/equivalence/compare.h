#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/arch/parameter_source.h"
#include "regauge/base/progress.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// How the numbers of one tensor of B, moved by an element or as they stand, are related to A's.
enum class Relation {
  equal,       // every number of B is A's
  b_rounds_a,  // every number of B is A's, rounded to B's type
  a_rounds_b,  // every number of A is B's, rounded to A's type
  both_round,  // every number of both may be a rounding of a third
  hidden,      // rounding is too coarse to tell
  differs
};
std::string_view relation_name(Relation relation);  // "b-rounds-a"

// One tensor of A against the same tensor of a_from_b . B; root mean squares over its entries.
struct TensorResidual {
  std::string tensor;
  bool single_row = false;
  bool by_entry = false;  // every number was held to its own rounding
  // More than rounding is left, and no more than in honest copies of A: verify(), which makes none,
  // would refuse it.
  bool like_honest = false;
  Relation relation = Relation::differs;
  double size = 0;      // of A's tensor; 0 where it is equal and was not needed
  double residual = 0;  // of the difference
  double rounding = 0;  // of what rounding explains: A's own, and B's as the element moves it
  // The statistic that stands out most, in units of the most that rounding makes of it: at most 1
  // where the relation holds.
  double excess = 0;
  // What stands out: "row 17", "one direction", "entry (3, 8)"; empty where nothing does.
  std::string standing_out = {};

  bool agrees() const { return relation < Relation::hidden; }
};

// A and B as they stand, entry by entry, every canonical tensor in the order of parameter_specs:
// one pass over both files where they hold a tensor in the same order. Two tensors of one type are
// equal or they differ; others may be each other's rounding. Both are read as one architecture.
std::vector<TensorResidual> compare_in_place(const ParameterSource& a, const ParameterSource& b,
                                             Progress& progress);

// A and a_from_b . B, tensor by tensor in the order of parameter_specs. The variance that the
// rounding of every entry has, of A's type and of B's as the element moves it, is known in advance;
// the difference must have it as a whole, in every row, column and entry, and in no direction more
// than chance allows. Where numbers only change places and signs, every number is
// held to its own rounding. `a` and `b` are read as symmetry.architecture.
//
// compare() applies the element to all of B, one tensor of each model in memory at a time.
std::vector<TensorResidual> compare(const Symmetry& symmetry, const Element& a_from_b,
                                    const ParameterSource& a, const ParameterSource& b,
                                    Progress& progress);
// The same seen through products with a few random directions, for a few passes over both files:
// entries are seen as parts of their rows and columns. The directions are drawn from `seed`, which
// whoever made the files must not be able to choose (see directions_seed).
std::vector<TensorResidual> compare_sketched(const Symmetry& symmetry, const Element& a_from_b,
                                             const ParameterSource& a, const ParameterSource& b,
                                             std::uint64_t seed, Progress& progress);
std::int64_t disagreeing(const std::vector<TensorResidual>& residuals);  // how many
bool all_agree(const std::vector<TensorResidual>& residuals);

// A typical relative root mean square error of rounding to this type.
double rounding_of(DType dtype);

}  // namespace regauge
