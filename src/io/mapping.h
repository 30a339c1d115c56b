#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "file_bytes.h"
#include "guarded_range.h"
#include "regular_file.h"

namespace regauge::io {

// A regular file as read-only memory, private to this process. Where another process shortens the
// file, pages that are gone read as zeros; require_read() tells. Throws FileError.
class MappedFile : public FileBytes {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile() override;

  std::size_t size() const override { return bytes_.size(); }
  std::span<const std::byte> memory() const override { return bytes_; }
  Bytes bytes(std::size_t offset, std::size_t length) const override {
    return Bytes(bytes_.subspan(offset, length));
  }
  void read(std::size_t offset, std::span<std::byte> to) const override;
  // Drops the resident pages; reading brings them back.
  void release(std::size_t offset, std::size_t length) const override;
  void require_read() const override;
  void require_intact() const override;

 private:
  RegularFile file_;
  std::span<const std::byte> bytes_;
  std::unique_ptr<const GuardedRange> guard_;  // none for an empty file
};

}  // namespace regauge::io
