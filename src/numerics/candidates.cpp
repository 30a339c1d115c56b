#include "candidates.h"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace regauge {
namespace {

constexpr std::int64_t kChunk = 32;
using Chunk = Eigen::Array<float, kChunk, 1>;
}  // namespace

void Prices::raise_to(std::int32_t j, double price) {
  float below = static_cast<float>(price);
  if (below > price) below = std::nextafter(below, -std::numeric_limits<float>::infinity());
  exact_[static_cast<std::size_t>(j)] = price;
  below_[static_cast<std::size_t>(j)] = below;
}

Candidates::Candidates(SimilarityRows& rows, const Prices& prices, std::int64_t per_row,
                       Progress& progress)
    : rows_(rows),
      prices_(prices),
      per_row_(std::min(per_row, rows.size())),
      entries_(static_cast<std::size_t>(per_row_ * rows.size())),
      listed_(static_cast<std::size_t>(rows.size())) {
  for (std::int32_t i = 0; i < size(); ++i) {
    const float* similarity = rows_.row(i);
    if (!find_peaks_at_no_price(similarity)) require_finite(similarity, i, size());
    const auto peak = std::max_element(peaks_.begin(), peaks_.end());
    auto column = static_cast<std::int32_t>((peak - peaks_.begin()) * kChunk);
    while (similarity[column] != *peak) ++column;
    first_choice_.push_back({column, *peak});
    bound_.push_back(*peak);
    if (rows_.passing()) {  // a later look would cost more
      bound_.back() = select(i, per_row_);
      store(i);
    }
    progress.advance(1);
  }
}

void Candidates::keep_best(std::size_t count) {
  std::nth_element(selected_.begin(), selected_.begin() + static_cast<std::ptrdiff_t>(count) - 1,
                   selected_.end(),
                   [](const Valued& a, const Valued& b) { return a.value > b.value; });
  selected_.resize(count);
}

// Into peaks_: for each chunk of the row an upper bound of S_ij - v_j, rounded to float. Rounding
// is monotone and `below` is not above v: values of at least x are in chunks whose peak is at least
// x, rounded.
void Candidates::find_peaks(const float* similarity) {
  const float* below = prices_.below();
  const std::int64_t whole = size() / kChunk * kChunk;
  peaks_.clear();
  for (std::int64_t j = 0; j < whole; j += kChunk) {
    const Eigen::Map<const Chunk> s(similarity + j);
    peaks_.push_back((s - Eigen::Map<const Chunk>(below + j)).maxCoeff());
  }
  if (whole == size()) return;
  float peak = -std::numeric_limits<float>::infinity();
  for (std::int64_t j = whole; j < size(); ++j) peak = std::max(peak, similarity[j] - below[j]);
  peaks_.push_back(peak);
}

// The same while all prices are 0. False if a number is not finite.
bool Candidates::find_peaks_at_no_price(const float* similarity) {
  const std::int64_t whole = size() / kChunk * kChunk;
  Chunk bad = Chunk::Zero();  // x - x is 0 for a finite x only
  peaks_.clear();
  for (std::int64_t j = 0; j < whole; j += kChunk) {
    const Eigen::Map<const Chunk> s(similarity + j);
    bad += s - s;
    peaks_.push_back(s.maxCoeff());
  }
  float bad_rest = 0;
  float peak = -std::numeric_limits<float>::infinity();
  for (std::int64_t j = whole; j < size(); ++j) {
    bad_rest += similarity[j] - similarity[j];
    peak = std::max(peak, similarity[j]);
  }
  if (whole != size()) peaks_.push_back(peak);
  return bad.sum() + bad_rest == 0;
}

// Into selected_: every column whose value S_ij - v_j is at least `threshold` when rounded, and
// maybe others. Each row begins elsewhere, so that equal rows do not prefer the same columns.
void Candidates::collect(std::int32_t row, const float* similarity, float threshold) {
  const float* below = prices_.below();
  const auto chunks = static_cast<std::int64_t>(peaks_.size());
  selected_.clear();
  for (std::int64_t step = 0, chunk = row / kChunk; step < chunks; ++step, ++chunk) {
    if (chunk == chunks) chunk = 0;
    if (peaks_[static_cast<std::size_t>(chunk)] < threshold) continue;
    const std::int64_t end = std::min((chunk + 1) * kChunk, size());
    for (std::int64_t j = chunk * kChunk; j < end; ++j) {
      if (similarity[j] - below[j] < threshold) continue;
      const auto column = static_cast<std::int32_t>(j);
      selected_.push_back({similarity[j] - prices_[column], {column, similarity[j]}});
    }
  }
}

// Leaves the `count` columns of largest value in selected_, returns a bound for all others.
double Candidates::select(std::int32_t row, std::int64_t count) {
  ++looks_;
  const float* similarity = rows_.row(row);
  find_peaks(similarity);
  float threshold = -std::numeric_limits<float>::infinity();
  if (count <= static_cast<std::int64_t>(peaks_.size())) {  // then at least `count` values reach it
    ordered_peaks_ = peaks_;
    const auto last = ordered_peaks_.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(ordered_peaks_.begin(), last, ordered_peaks_.end(), std::greater<>());
    threshold = *last;
  }
  for (;;) {
    collect(row, similarity, threshold);
    keep_best(static_cast<std::size_t>(count));
    const auto smallest = static_cast<float>(selected_.back().value);
    if (smallest >= threshold) break;
    threshold = smallest;  // rounding had let in a value that does not belong
  }
  return count == size() ? -kInfinity : selected_.back().value;
}

void Candidates::store(std::int32_t row) {
  Candidate* entry = entries_.data() + row * per_row_;
  for (const Valued& selected : selected_) *entry++ = selected.candidate;
  listed_[static_cast<std::size_t>(row)] = true;
}

void Candidates::refresh(std::int32_t row) { widen(row, per_row_); }

Candidates::Wide Candidates::widen(std::int32_t row, std::int64_t count) {
  count = std::min(count, size());
  if (rows_.passing()) {  // the rows that came with it
    const std::int64_t first = row / Similarity::kBlock * Similarity::kBlock;
    const std::int64_t last = std::min(first + Similarity::kBlock, size());
    for (auto other = static_cast<std::int32_t>(first); other < last; ++other) {
      if (other == row) continue;
      bound_[static_cast<std::size_t>(other)] = select(other, per_row_);
      store(other);
    }
  }
  const double bound = select(row, count);
  wide_.clear();
  for (const Valued& selected : selected_) wide_.push_back(selected.candidate);
  bound_[static_cast<std::size_t>(row)] = bound;
  if (count > per_row_) {
    keep_best(static_cast<std::size_t>(per_row_));
    bound_[static_cast<std::size_t>(row)] = selected_.back().value;
  }
  store(row);
  return {wide_, bound};
}

double Candidates::best_listed(std::int32_t row) const {
  double value = -kInfinity;
  for (const Candidate& candidate : of(row)) {
    value = std::max(value, candidate.similarity - prices_[candidate.column]);
  }
  return value;
}

double Candidates::ceiling(std::int32_t row) const {
  return std::max(best_listed(row), bound(row));
}

double Candidates::best(std::int32_t row) {
  const double listed = best_listed(row);
  if (listed >= bound(row)) return listed;
  refresh(row);
  return best_listed(row);
}

}  // namespace regauge
