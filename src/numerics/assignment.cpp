#include "assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "matching.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr double kFirstStep = 0.05;  // of the typical distance between candidates of a row
constexpr double kLastStep = 5e-4;
constexpr double kStepRatio = 8;
constexpr std::int64_t kBidsPerRow = 20;  // at one step, before it is called too small

void check(const AssignmentOptions& options) {
  if (!(options.relative_gap >= 0)) {
    throw UsageError(fmt::format("[assign] relative_gap = {} is not a number of at least 0",
                                 options.relative_gap));
  }
  if (options.candidates < 2) {
    throw UsageError(
        fmt::format("[assign] candidates = {}; expected 2 or more per row", options.candidates));
  }
}

// How far the candidates of a row lie apart, the best one left out: it may be a row's true partner
// and far above all others. Over the rows that have lists, at least one.
double mean_spread(const Candidates& candidates, const Prices& prices) {
  double sum = 0;
  std::vector<double> values;
  std::int64_t rows = 0;
  for (std::int32_t row = 0; row < candidates.size(); ++row) {
    if (candidates.of(row).empty()) continue;
    ++rows;
    values.clear();
    for (const Candidate& candidate : candidates.of(row)) {
      values.push_back(candidate.similarity - prices[candidate.column]);
    }
    std::nth_element(values.begin(), values.begin() + 1, values.end(), std::greater<>());
    sum += values[1] - *std::min_element(values.begin(), values.end());
  }
  return sum / static_cast<double>(rows);
}

// The potentials and the gap that the prices prove.
Assignment with_certificate(Candidates& candidates, const Matching& matching) {
  Assignment result;
  result.column_of_row.assign(matching.column_of_row.begin(), matching.column_of_row.end());
  result.column_potential = matching.prices.exact();
  for (std::int32_t row = 0; row < candidates.size(); ++row) {
    const double profit = matching.profit(row);
    result.row_potential.push_back(profit >= candidates.ceiling(row) ? profit
                                                                     : candidates.best(row));
    result.value += matching.similarity[static_cast<std::size_t>(row)];
    result.gap += std::max(0.0, result.row_potential.back() - profit);
  }
  return result;
}

// Each column goes to the first row that likes it best.
void match_first_choices(const Candidates& candidates, Matching& matching) {
  for (std::int32_t row = 0; row < candidates.size(); ++row) {
    const Candidate choice = candidates.first_choice(row);
    if (matching.row_of_column[static_cast<std::size_t>(choice.column)] == Matching::kNone) {
      matching.match(row, choice.column, choice.similarity);
    }
  }
}

std::int64_t unmatched_rows(const Matching& matching) {
  return std::count(matching.column_of_row.begin(), matching.column_of_row.end(), Matching::kNone);
}

// Auctions with ever smaller steps until the gap is small enough (true), or so small that few rows
// are left to an exact method. A step that leads to bidding without end makes way for a larger one.
bool auctions_reach(Candidates& candidates, Matching& matching, double relative_gap,
                    Progress& progress) {
  const std::int64_t bids = kBidsPerRow * candidates.size();
  const double spread = mean_spread(candidates, matching.prices);
  double step = kFirstStep * spread;
  const double last_step = kLastStep * spread;
  const auto small_enough = [&] {
    const Assignment reached = with_certificate(candidates, matching);
    return reached.gap <= relative_gap * std::abs(reached.value);
  };
  for (int rise = 0; !auction(candidates, matching, step, bids, progress); ++rise) {
    if (rise == 4) return false;
    step *= kStepRatio;
  }
  while (!small_enough()) {
    step /= kStepRatio;
    if (step < last_step || !auction(candidates, matching, step, bids, progress)) return false;
  }
  return true;
}

}  // namespace

Assignment assign(const Similarity& similarity, const AssignmentOptions& options,
                  Progress& progress) {
  check(options);
  const std::int64_t size = similarity.size();
  progress.start("assignment", 2 * size);
  SimilarityRows rows(similarity);
  Matching matching(size);
  Candidates candidates(rows, matching.prices, options.candidates, progress);
  match_first_choices(candidates, matching);
  const bool easy = auction(candidates, matching, 0, 2 * size, progress);
  if (!easy && !auctions_reach(candidates, matching, options.relative_gap, progress)) {
    auction(candidates, matching, 0, 2 * size, progress);
    progress.advance(size - unmatched_rows(matching));
    augment_all(candidates, matching, progress);
  } else {
    progress.advance(size);
  }
  progress.finish();
  return with_certificate(candidates, matching);
}

CertificateCheck check_certificate(const Similarity& similarity, const Assignment& assignment,
                                   Progress& progress) {
  const std::int64_t size = similarity.size();
  const auto length = static_cast<std::size_t>(size);
  CertificateCheck check;
  if (assignment.column_of_row.size() != length || assignment.row_potential.size() != length ||
      assignment.column_potential.size() != length) {
    throw UsageError(fmt::format("[check_certificate] the assignment is not of size {}", size));
  }
  std::vector<bool> taken(length);
  check.permutation = true;
  for (const std::int64_t column : assignment.column_of_row) {
    const bool free = column >= 0 && column < size && !taken[static_cast<std::size_t>(column)];
    if (free) taken[static_cast<std::size_t>(column)] = true;
    check.permutation = check.permutation && free;
  }
  if (!check.permutation) return check;

  progress.start("certificate", size);
  SimilarityRows rows(similarity);
  for (std::int64_t i = 0; i < size; ++i) {
    const float* row = rows.row(i);
    require_finite(row, i, size);
    const double u = assignment.row_potential[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < size; ++j) {
      const double v = assignment.column_potential[static_cast<std::size_t>(j)];
      check.violation = std::max(check.violation, row[j] - u - v);
    }
    const std::int64_t column = assignment.column_of_row[static_cast<std::size_t>(i)];
    check.gap += u + assignment.column_potential[static_cast<std::size_t>(column)] - row[column];
    progress.advance(1);
  }
  progress.finish();
  return check;
}

}  // namespace regauge
