#pragma once

#include <string>
#include <vector>

#include "regauge/arch/layout.h"
#include "regauge/base/progress.h"

namespace regauge {

// What two files hold beyond what was understood of them, as whole sentences.
struct Unread {
  // Keys that are not understood and tensors that are not read which differ, or which only one of
  // the files has: the functions may differ. Classes whose names differ, as well.
  std::vector<std::string> differ;
  // The same in both files, bit by bit: harmless in place, but what it means is not known, so that
  // it may be wrong beside numbers that were moved.
  std::vector<std::string> equal;
};

// Compares Model::not_understood by value and Model::unread byte by byte, and what is apart
// (apart_of) likewise: where that is the same, it is right beside moved numbers, too. A few
// megabytes at a time. A key of one format has no counterpart in another and counts as being in one
// file alone.
Unread compare_unread(const Model& a, const Model& b, Progress& progress);

}  // namespace regauge
