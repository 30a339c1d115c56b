#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace regauge::io {

// Throws UsageError if something is there, FileError if there is no folder for it.
void check_new(const std::filesystem::path& path);

// A hidden file or folder beside `target` (".NAME.partial-PID") that becomes `target` by a rename.
// Removes what was not committed. Throws UsageError if the target exists already, FileError on
// other failures.
class PartialPath {
 public:
  PartialPath(const std::filesystem::path& target, bool folder);
  ~PartialPath();
  PartialPath(const PartialPath&) = delete;
  PartialPath& operator=(const PartialPath&) = delete;

  const std::filesystem::path& path() const { return partial_; }
  const std::filesystem::path& target() const { return target_; }
  void commit();

 private:
  std::filesystem::path target_, partial_;
  bool committed_ = false;
};

// A file written at offsets. Throws FileError, which names the file as `shown`.
class OutputFile {
 public:
  OutputFile(const std::filesystem::path& path, std::int64_t size, std::filesystem::path shown);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  void write(std::span<const std::byte> bytes, std::int64_t offset) const;
  void close();  // after its bytes have reached the disk

 private:
  std::filesystem::path shown_;
  int file_ = -1;
};

// To a new file, with its permissions. Throws FileError.
void write_copy(const std::filesystem::path& from, const std::filesystem::path& to);
// In the place of what may be there. A link where the file system has them, so that a large file is
// not written again. Throws FileError.
void link_or_copy(const std::filesystem::path& from, const std::filesystem::path& to);

void write_file(const std::filesystem::path& path, const std::string& text,
                const std::filesystem::path& shown);
// A new file, whole or not at all. Throws as PartialPath does.
void write_new(const std::filesystem::path& path, const std::string& text);

}  // namespace regauge::io
