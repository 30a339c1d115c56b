#include "similarity_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "regauge/base/error.h"

namespace regauge {
namespace {

std::int64_t checked_size(std::int64_t size) {
  if (size < 0 || size > std::numeric_limits<std::int32_t>::max()) {
    throw UsageError(fmt::format("[assign] size = {} is not in [0, 2^31)", size));
  }
  return size;
}

}  // namespace

Similarity::Similarity(std::int64_t size, const float* matrix)
    : size_(checked_size(size)), matrix_(matrix) {
  if (matrix == nullptr && size > 0) throw UsageError("[assign] no matrix was given");
}

Similarity::Similarity(std::int64_t size, Produce produce, Memory memory)
    : size_(checked_size(size)), produce_(std::move(produce)), memory_(memory) {
  if (!produce_) throw UsageError("[assign] nothing was given that produces rows");
}

SimilarityRows::SimilarityRows(const Similarity& similarity)
    : similarity_(similarity), size_(similarity.size()) {
  if (similarity_.matrix() != nullptr) return;
  const std::int64_t rows = passing() ? std::min(size_, Similarity::kBlock) : size_;
  numbers_.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(size_));
  produced_.resize(static_cast<std::size_t>(size_ / Similarity::kBlock + 1));
}

const float* SimilarityRows::block(std::int64_t index) {
  const std::int64_t first = index * Similarity::kBlock;
  float* rows = numbers_.data() + (passing() ? 0 : first * size_);
  const bool there = passing() ? held_ == index : produced_[static_cast<std::size_t>(index)];
  if (!there) {
    held_ = -1;
    similarity_.produce()(first, std::min(Similarity::kBlock, size_ - first), rows);
    held_ = index;
    produced_[static_cast<std::size_t>(index)] = true;
  }
  return rows;
}

const float* SimilarityRows::row(std::int64_t i) {
  if (similarity_.matrix() != nullptr) return similarity_.matrix() + i * size_;
  return block(i / Similarity::kBlock) + i % Similarity::kBlock * size_;
}

void require_finite(const float* row, std::int64_t i, std::int64_t size) {
  const float* bad = std::find_if(row, row + size, [](float x) { return !std::isfinite(x); });
  if (bad == row + size) return;
  throw UsageError(
      fmt::format("[assign] similarity of row {} and column {} is {}; expected finite numbers", i,
                  bad - row, *bad));
}

}  // namespace regauge
