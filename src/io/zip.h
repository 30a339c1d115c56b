#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "regauge/io/bytes.h"

namespace regauge::io {

// The files of a zip archive, by name, as intervals of its bytes.
class ZipDirectory {
 public:
  struct Entry {
    std::int64_t offset = 0;  // from the start of the archive
    std::int64_t bytes = 0;
    bool stored = false;  // as it is, neither compressed nor encrypted
  };
  // Plain zip and zip64, in one part and without a comment at the end. The central directory is
  // what counts; each local header has to agree with it, and no two files share bytes. Throws
  // CorruptFile. `where` begins messages.
  ZipDirectory(ByteRange archive, const std::string& where);

  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  const Entry* find(std::string_view name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::string, Entry, std::less<>> entries_;
};

bool begins_as_zip(std::span<const std::byte> bytes);

}  // namespace regauge::io
