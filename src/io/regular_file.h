#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace regauge::io {

// What one request to read or write may ask for: macOS refuses 2 GiB.
inline constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

// A regular file, opened for reading, and what it was like then.
class RegularFile {
 public:
  // Throws FileError.
  explicit RegularFile(const std::filesystem::path& path);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  const std::filesystem::path& path() const { return path_; }  // absolute
  int descriptor() const { return file_; }                     // -1 once closed
  std::size_t size() const { return static_cast<std::size_t>(status_.st_size); }
  // Fills `to`. Throws FileError if the file ends before, or cannot be read.
  void read(std::size_t offset, std::span<std::byte> to) const;
  void close();

  // Throws FileError if the file has been written to since it was opened. Another file of the same
  // name does no harm.
  void require_unchanged() const;
  // What a file that became shorter is refused with.
  [[noreturn]] void fail_as_shorter() const;

 private:
  std::filesystem::path path_;
  int file_;
  struct stat status_ = {};
};

// The first `most` bytes of a regular file, copied. Throws FileError.
std::string read_file(const std::filesystem::path& path, std::size_t most);

}  // namespace regauge::io
