#pragma once

#include <filesystem>

namespace regauge {

// A file as a sign that somebody is at work, also between machines if the file system has `flock`.
// It ends with the process, however that ends.
class FileLock {
 public:
  // Makes the file if need be. Throws FileError if it cannot be written.
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // Otherwise another has it.
  bool held() const { return held_; }

 private:
  int file_;
  bool held_;
};

}  // namespace regauge
