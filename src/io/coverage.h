#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace regauge::io {

// The union of the half-open intervals added so far, kept as disjoint intervals that do not touch.
class Coverage {
 public:
  void add(std::int64_t first, std::int64_t last) {
    if (first >= last) return;
    auto next = intervals_.upper_bound(first);
    if (next != intervals_.begin() && std::prev(next)->second >= first) --next;
    while (next != intervals_.end() && next->first <= last) {
      first = std::min(first, next->first);
      last = std::max(last, next->second);
      next = intervals_.erase(next);
    }
    intervals_.emplace_hint(next, first, last);
  }
  // The first point of [0, size) that is not covered, or size.
  std::int64_t first_gap(std::int64_t size) const {
    if (intervals_.empty() || intervals_.begin()->first > 0) return size > 0 ? 0 : size;
    return std::min(size, intervals_.begin()->second);
  }

 private:
  std::map<std::int64_t, std::int64_t> intervals_;  // first -> last
};

}  // namespace regauge::io
