#include "members.h"

#include <numeric>

#include "rows.h"
#include "signature.h"

namespace regauge {
namespace {

// Rows to rows, where runs of `size` rows stay together: `outer` says where each run goes.
std::vector<std::int64_t> match_within(const std::vector<std::int64_t>& outer, std::int64_t size,
                                       const Matrix<double>& b, const Matrix<double>& a,
                                       double rounding) {
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < outer.size(); ++i) {
    const auto from = static_cast<std::int64_t>(i) * size, to = outer[i] * size;
    for (const auto inner :
         match_rows(b.middleRows(from, size), a.middleRows(to, size), rounding)) {
      places.push_back(to + inner);
    }
  }
  return places;
}

}  // namespace

std::vector<std::int64_t> match_members(const Space& space, const Matrix<double>& b,
                                        const Matrix<double>& a, double rounding) {
  if (space.shuffle == Shuffle::none) return {};
  if (space.shuffle == Shuffle::symmetric) return match_rows(b, a, rounding);
  if (!space.follows.empty()) {  // groups stand where their leader has brought them
    std::vector<std::int64_t> groups(static_cast<std::size_t>(space.groups()));
    std::iota(groups.begin(), groups.end(), 0);
    return match_within(groups, space.group_size, b, a, rounding);
  }
  const Matrix<double> groups_b = summed_runs(b, space.group_size);
  const Matrix<double> groups_a = summed_runs(a, space.group_size);
  const std::int64_t size = space.groups() / space.bundles;
  const auto bundles =
      match_rows(summed_runs(groups_b, size), summed_runs(groups_a, size), rounding);
  const auto groups = match_within(bundles, size, groups_b, groups_a, rounding);
  return match_within(groups, space.group_size, b, a, rounding);
}

}  // namespace regauge
