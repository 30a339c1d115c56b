#include "equal_rows.h"

#include <bit>
#include <map>
#include <utility>

namespace regauge {
namespace {

using Hash = std::pair<std::uint64_t, std::uint64_t>;

Hash hash_of(const float* row, std::int64_t size) {
  Hash hash{0x9e3779b97f4a7c15ULL, 0xd1b54a32d192ed03ULL};
  for (std::int64_t j = 0; j < size; ++j) {
    const auto bits = std::bit_cast<std::uint32_t>(row[j]);
    hash.first = std::rotl((hash.first ^ bits) * 0xbf58476d1ce4e5b9ULL, 29);
    hash.second = std::rotl((hash.second + bits) * 0x94d049bb133111ebULL, 31);
  }
  return hash;
}

}  // namespace

std::vector<std::int32_t> equal_rows(SimilarityRows& rows, Progress& progress) {
  std::map<Hash, std::int32_t> first_with;
  std::vector<std::int32_t> first;
  for (std::int32_t i = 0; i < rows.size(); ++i) {
    first.push_back(first_with.emplace(hash_of(rows.row(i), rows.size()), i).first->second);
    progress.advance(0);
  }
  return first;
}

}  // namespace regauge
