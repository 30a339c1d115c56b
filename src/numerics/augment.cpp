#include <algorithm>
#include <limits>
#include <utility>

#include "equal_rows.h"
#include "matching.h"

namespace regauge {
namespace {

constexpr std::int64_t kWiden = 8;  // times as many candidates at each further look at a row

// Dijkstra over columns. The length of the edge (i, j) is u_i - (S_ij - v_j) >= 0 where u_i is the
// best profit of row i, 0 on matched edges.
class PathSearch {
 public:
  PathSearch(Candidates& candidates, Matching& matching)
      : candidates_(candidates),
        matching_(matching),
        distance_(static_cast<std::size_t>(candidates.size()), kInfinity),
        row_before_(static_cast<std::size_t>(candidates.size())) {}

  // Equal rows have equal kinds in [0, n).
  void set_kinds(std::vector<std::int32_t> kind) {
    kind_ = std::move(kind);
    last_search_.assign(kind_.size(), 0);
  }

  // Matches an unmatched row.
  void augment(std::int32_t source) {
    search(source);
    for (const auto& [column, at] : finished_) {
      if (at < end_distance_) {
        matching_.prices.raise_to(column, matching_.prices[column] + (end_distance_ - at));
      }
    }
    turn_path(source);
    for (const std::int32_t column : touched_) {
      distance_[static_cast<std::size_t>(column)] = kInfinity;
    }
    touched_.clear();
    finished_.clear();
    queue_.clear();
  }

 private:
  // Next on the way: a column, or all columns of a row that are not among its best `known`.
  struct Stop {
    double distance;
    std::int32_t column;  // or kNone
    std::int32_t row;
    std::int64_t known;
    bool operator<(const Stop& other) const {  // is it later than the other?
      if (distance != other.distance) return distance > other.distance;
      return column == Matching::kNone && other.column != Matching::kNone;
    }
  };
  struct Reached {
    std::int32_t row;
    float similarity;
  };

  void push(const Stop& stop) {
    queue_.push_back(stop);
    std::push_heap(queue_.begin(), queue_.end());
  }

  void search(std::int32_t source) {
    end_distance_ = kInfinity;
    source_ = source;
    source_profit_ = candidates_.best(source);
    ++searches_;
    first_of_its_kind(source);
    relax(source, 0, candidates_.of(source), candidates_.bound(source));
    while (!queue_.empty() && queue_.front().distance < end_distance_) {
      std::pop_heap(queue_.begin(), queue_.end());
      const Stop stop = queue_.back();
      queue_.pop_back();
      if (stop.column == Matching::kNone) {
        const std::int64_t known = std::max(stop.known * kWiden, candidates_.per_row());
        const Candidates::Wide wide = candidates_.widen(stop.row, known);
        relax(stop.row, row_distance(stop.row), wide.candidates, wide.bound);
      } else if (stop.distance == distance_[static_cast<std::size_t>(stop.column)]) {
        finished_.emplace_back(stop.column, stop.distance);
        const std::int32_t row = matching_.row_of_column[static_cast<std::size_t>(stop.column)];
        if (first_of_its_kind(row)) {
          relax(row, stop.distance, candidates_.of(row), candidates_.bound(row));
        }
      }
    }
  }

  // A row like one that has been passed leads nowhere sooner: both have the same best profit.
  bool first_of_its_kind(std::int32_t row) {
    if (kind_.empty()) return true;
    std::int32_t& last =
        last_search_[static_cast<std::size_t>(kind_[static_cast<std::size_t>(row)])];
    return std::exchange(last, searches_) != searches_;
  }

  double row_distance(std::int32_t row) const {
    if (row == source_) return 0;
    return distance_[static_cast<std::size_t>(
        matching_.column_of_row[static_cast<std::size_t>(row)])];
  }

  void relax(std::int32_t row, double start, std::span<const Candidate> columns, double bound) {
    const double profit = row == source_ ? source_profit_ : matching_.profit(row);
    for (const Candidate& candidate : columns) {
      const double value = candidate.similarity - matching_.prices[candidate.column];
      const double distance = start + std::max(0.0, profit - value);
      double& known = distance_[static_cast<std::size_t>(candidate.column)];
      if (distance >= end_distance_ || distance >= known) continue;
      if (known == kInfinity) touched_.push_back(candidate.column);
      known = distance;
      row_before_[static_cast<std::size_t>(candidate.column)] = {row, candidate.similarity};
      if (matching_.row_of_column[static_cast<std::size_t>(candidate.column)] == Matching::kNone) {
        end_distance_ = distance;
        end_ = candidate.column;
      } else {
        push({distance, candidate.column, row, 0});
      }
    }
    const double others = start + std::max(0.0, profit - bound);
    if (others < end_distance_) {
      push({others, Matching::kNone, row, static_cast<std::int64_t>(columns.size())});
    }
  }

  void turn_path(std::int32_t source) {
    for (std::int32_t column = end_;;) {
      const Reached before = row_before_[static_cast<std::size_t>(column)];
      const std::int32_t freed = matching_.column_of_row[static_cast<std::size_t>(before.row)];
      matching_.match(before.row, column, before.similarity);
      if (before.row == source) return;
      column = freed;
    }
  }

  Candidates& candidates_;
  Matching& matching_;
  std::vector<std::int32_t> kind_;         // by row; empty: all differ
  std::vector<std::int32_t> last_search_;  // that passed a row of the kind
  std::int32_t searches_ = 0;
  std::vector<double> distance_;  // by column
  std::vector<Reached> row_before_;
  std::vector<std::int32_t> touched_;
  std::vector<std::pair<std::int32_t, double>> finished_;
  std::vector<Stop> queue_;  // a heap
  std::int32_t source_ = 0;
  double source_profit_ = 0;
  double end_distance_ = kInfinity;
  std::int32_t end_ = Matching::kNone;
};

}  // namespace

void augment_all(Candidates& candidates, Matching& matching, Progress& progress) {
  PathSearch search(candidates, matching);
  const std::int64_t looks_of_hard_case = candidates.looks() + candidates.size() / 4;
  bool hard = false;
  for (std::int32_t row = 0; row < candidates.size(); ++row) {
    if (matching.matched(row)) continue;
    search.augment(row);
    if (!hard && candidates.looks() > looks_of_hard_case) {
      hard = true;
      search.set_kinds(equal_rows(candidates.rows(), progress));
    }
    progress.advance(1);
  }
}

}  // namespace regauge
