#pragma once

#include <cstdint>
#include <vector>

#include "candidates.h"

namespace regauge {

// A partial permutation with prices: row i and column j are matched if each names the other.
struct Matching {
  explicit Matching(std::int64_t size)
      : prices(size),
        column_of_row(static_cast<std::size_t>(size), kNone),
        similarity(static_cast<std::size_t>(size)),
        row_of_column(static_cast<std::size_t>(size), kNone) {}

  static constexpr std::int32_t kNone = -1;

  void match(std::int32_t row, std::int32_t column, float value) {
    column_of_row[static_cast<std::size_t>(row)] = column;
    similarity[static_cast<std::size_t>(row)] = value;
    row_of_column[static_cast<std::size_t>(column)] = row;
  }
  void release(std::int32_t row) {
    std::int32_t& column = column_of_row[static_cast<std::size_t>(row)];
    row_of_column[static_cast<std::size_t>(column)] = kNone;
    column = kNone;
  }
  bool matched(std::int32_t row) const {
    return column_of_row[static_cast<std::size_t>(row)] != kNone;
  }
  // S_ij - v_j of the matched column j.
  double profit(std::int32_t row) const {
    return similarity[static_cast<std::size_t>(row)] -
           prices[column_of_row[static_cast<std::size_t>(row)]];
  }

  Prices prices;  // v
  std::vector<std::int32_t> column_of_row;
  std::vector<float> similarity;  // of row i and column_of_row[i]
  std::vector<std::int32_t> row_of_column;
};

// Bertsekas' auction: unmatched rows bid for their best column, at most `bids` times. Matched rows
// stay within `step` of their best profit, u_i - step <= S_ij - v_j with u_i = max_k S_ik - v_k;
// those that are not when it begins are released. With step = 0, a row whose best two columns are
// both taken and worth the same is left unmatched. True if all rows are matched.
bool auction(Candidates& candidates, Matching& matching, double step, std::int64_t bids,
             Progress& progress);

// Matches the rows that are not, one shortest augmenting path each; matched rows must have, and
// keep, their best profit: the matching is optimal on the rows it has.
void augment_all(Candidates& candidates, Matching& matching, Progress& progress);

}  // namespace regauge
