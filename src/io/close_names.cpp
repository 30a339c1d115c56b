#include "close_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace regauge::io {
namespace {

constexpr std::size_t kLongest = 200;  // longer names are not worth a guess

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> close_names(std::string_view wanted,
                                     const std::vector<std::string_view>& names) {
  std::vector<std::pair<std::size_t, std::string_view>> found;
  for (const std::string_view name : names) {
    if (wanted.size() > kLongest || name.size() > kLongest) continue;
    const std::size_t distance = edit_distance(wanted, name);
    if (distance <= std::max<std::size_t>(2, wanted.size() / 3)) found.emplace_back(distance, name);
  }
  std::sort(found.begin(), found.end());
  found.resize(std::min<std::size_t>(found.size(), 3));
  std::vector<std::string> result;
  for (const auto& [distance, name] : found) result.emplace_back(name);
  return result;
}

}  // namespace regauge::io
