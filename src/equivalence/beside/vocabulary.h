#pragma once

#include <string>
#include <vector>

#include "regauge/arch/layout.h"

namespace regauge {

// What it means that two vocabularies differ in length, as whole sentences. Both are empty where
// the lengths are equal or there are no tokens.
struct VocabularyNotes {
  std::vector<std::string> matter;    // the functions differ by it
  std::vector<std::string> harmless;  // rows of a table that no input of the other model addresses
};

// Rows beyond the shorter vocabulary get a share of every softmax over the vocabulary, so with a
// token output they matter, padding or not; how large the share is depends on the numbers. Without
// one they are reached only by token ids that the shorter model does not have.
VocabularyNotes vocabulary_differences(const Model& a, const Model& b);

}  // namespace regauge
