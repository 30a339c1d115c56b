#pragma once

#include <vector>

#include "assignment.h"

namespace regauge {

// The rows of a Similarity by number, in whichever way it wants to be read.
class SimilarityRows {
 public:
  explicit SimilarityRows(const Similarity& similarity);

  std::int64_t size() const { return size_; }
  // n numbers, valid until a row of another block is asked for.
  const float* row(std::int64_t i);
  // May another row of the block of i be read at no cost, and only now?
  bool passing() const { return similarity_.memory() == Similarity::Memory::recompute; }

 private:
  const float* block(std::int64_t index);

  Similarity similarity_;
  std::int64_t size_;
  std::vector<float> numbers_;  // one block, or all of them
  std::vector<bool> produced_;  // by block, of those kept
  std::int64_t held_ = -1;      // the one block in numbers_
};

// Throws UsageError if the row with number i has a NaN or an infinity.
void require_finite(const float* row, std::int64_t i, std::int64_t size);

}  // namespace regauge
