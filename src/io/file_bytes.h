#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "regauge/io/bytes.h"

namespace regauge::io {

// The bytes of a file, whether it is mapped, read by requests or fetched from a server. All members
// may be called from several threads.
class FileBytes {
 public:
  FileBytes() = default;
  virtual ~FileBytes() = default;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  virtual std::size_t size() const = 0;
  ByteRange all() const { return {*this, 0, size()}; }

  // All bytes, if the file is mapped.
  virtual std::span<const std::byte> memory() const { return {}; }
  // The bytes of an interval inside the file. Throw FileError.
  virtual Bytes bytes(std::size_t offset, std::size_t length) const = 0;
  virtual void read(std::size_t offset, std::span<std::byte> to) const = 0;

  // The bytes of this interval are not needed for now.
  virtual void release(std::size_t offset, std::size_t length) const = 0;
  // Throws FileError if what was read was not there. Costs next to nothing.
  virtual void require_read() const = 0;
  // Throws also if the file has been written to since it was opened. That another file has taken
  // its name does no harm.
  virtual void require_intact() const = 0;
};

// Opens a file as ReadingMode (regauge/io/reading_mode.h) says, or one behind a URL. Throws
// FileError.
std::shared_ptr<const FileBytes> open_bytes(const std::filesystem::path& path);
// Whether there is a regular file, or one behind this URL. Throws FileError if a server does not
// say.
bool is_file(const std::filesystem::path& path);
// The first `most` bytes of either, copied. Throws FileError.
std::string read_text(const std::filesystem::path& path, std::size_t most);

}  // namespace regauge::io
