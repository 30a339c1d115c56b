#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "guarded_range.h"

namespace regauge::io {

// The first `most` bytes of a regular file, copied. Throws FileError.
std::string read_file(const std::filesystem::path& path, std::size_t most);

// A regular file as read-only memory, private to this process. Where another process shortens the
// file, pages that are gone read as zeros; require_intact() tells. Throws FileError.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  // Drops the resident pages of an interval inside bytes(); reading brings them back.
  void release(std::size_t offset, std::size_t length) const;

  // Throws FileError if a page that was read was not there. Costs next to nothing.
  void require_read() const;
  // Throws also if the file has been written to since it was mapped. Another file of the same name
  // does no harm.
  void require_intact() const;

 private:
  std::filesystem::path path_;  // absolute
  struct stat status_ = {};     // when it was mapped
  std::span<const std::byte> bytes_;
  std::unique_ptr<const GuardedRange> guard_;  // none for an empty file
};

}  // namespace regauge::io
