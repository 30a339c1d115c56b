#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace regauge::io {

// A regular file as read-only memory, private to this process. The file must not shrink while
// mapped. Throws FileError.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  // Drops the resident pages of an interval inside bytes(); reading brings them back.
  void release(std::size_t offset, std::size_t length) const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace regauge::io
