#include <algorithm>
#include <limits>

#include "matching.h"

namespace regauge {
namespace {

constexpr std::int64_t kBidsPerCall = 4096;  // to progress

struct Offer {
  Candidate best{};
  double value = -std::numeric_limits<double>::infinity();
  Candidate next{};
  double next_value = -std::numeric_limits<double>::infinity();
};

// The two columns of largest S_ij - v_j on the list of a row.
Offer offer_on_list(const Candidates& candidates, const Prices& prices, std::int32_t row) {
  Offer offer;
  for (const Candidate& candidate : candidates.of(row)) {
    const double value = candidate.similarity - prices[candidate.column];
    if (value <= offer.next_value) continue;
    if (value > offer.value) {
      offer.next = offer.best;
      offer.next_value = offer.value;
      offer.best = candidate;
      offer.value = value;
    } else {
      offer.next = candidate;
      offer.next_value = value;
    }
  }
  return offer;
}

// The same of the whole row.
Offer best_offer(Candidates& candidates, const Prices& prices, std::int32_t row) {
  Offer offer = offer_on_list(candidates, prices, row);
  if (offer.next_value < candidates.bound(row)) {
    candidates.refresh(row);
    offer = offer_on_list(candidates, prices, row);
  }
  return offer;
}

std::vector<std::int32_t> rows_to_match(Candidates& candidates, Matching& matching, double step) {
  std::vector<std::int32_t> rows;
  for (std::int32_t row = 0; row < candidates.size(); ++row) {
    if (matching.matched(row)) {
      const double content = matching.profit(row) + step;
      if (content >= candidates.ceiling(row) || content >= candidates.best(row)) continue;
      matching.release(row);
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

bool auction(Candidates& candidates, Matching& matching, double step, std::int64_t bids,
             Progress& progress) {
  std::vector<std::int32_t> waiting = rows_to_match(candidates, matching, step);
  std::vector<std::int32_t> displaced;
  bool all = true;
  while (!waiting.empty()) {
    displaced.clear();
    for (const std::int32_t row : waiting) {
      if (--bids < 0) return false;
      if (bids % kBidsPerCall == 0) progress.advance(0);
      Offer offer = best_offer(candidates, matching.prices, row);
      const bool only_column = candidates.size() == 1;
      const double lead = only_column ? 0 : offer.value - offer.next_value;
      const double price = matching.prices[offer.best.column] + lead + step;
      std::int32_t owner = matching.row_of_column[static_cast<std::size_t>(offer.best.column)];
      if (!(price > matching.prices[offer.best.column]) && owner != Matching::kNone) {
        std::swap(offer.best, offer.next);
        owner = matching.row_of_column[static_cast<std::size_t>(offer.best.column)];
        if (owner != Matching::kNone) {
          all = false;
          continue;
        }
      } else {
        matching.prices.raise_to(offer.best.column, price);
      }
      if (owner != Matching::kNone) {
        matching.release(owner);
        displaced.push_back(owner);
      }
      matching.match(row, offer.best.column, offer.best.similarity);
    }
    waiting.swap(displaced);
  }
  return all;
}

}  // namespace regauge
