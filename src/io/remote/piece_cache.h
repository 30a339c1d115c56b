#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace regauge::io {

// What was fetched of one version of a remote file, on disk, for the next time: a file for each
// piece, with its SHA-256 behind it, in REGAUGE_CACHE/pieces (XDG_CACHE_HOME/regauge/pieces,
// ~/.cache/regauge/pieces). Together they take at most REGAUGE_CACHE_SIZE ("20GB"; 0: nothing is
// kept); those that were used longest ago are removed. Several processes may share the folder. A
// cache that cannot be written or is damaged is as one that is empty.
class PieceCache {
 public:
  // `version` says which file it is, and which state of it. Throws UsageError for a size that is
  // none.
  explicit PieceCache(const std::string& version);

  bool is_on() const { return !folder_.empty(); }
  // Whether the piece was there; `to` is all of it.
  bool find(std::size_t begin, std::span<std::byte> to) const;
  // The same of a part of a piece of this length, which find() or keep() has seen to be sound
  // already: its SHA-256 is not looked at again.
  bool find_part(std::size_t begin, std::size_t length, std::size_t offset,
                 std::span<std::byte> to) const;
  // Whether it is kept.
  bool keep(std::size_t begin, std::span<const std::byte> piece) const;

 private:
  std::filesystem::path root_, folder_;  // empty: nothing is kept
  std::size_t most_ = 0;                 // bytes
};

}  // namespace regauge::io
