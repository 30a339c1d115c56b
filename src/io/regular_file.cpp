#include "regular_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "regauge/base/error.h"

namespace regauge::io {
namespace {

#ifdef __APPLE__
const timespec& written_at(const struct stat& status) { return status.st_mtimespec; }
#else
const timespec& written_at(const struct stat& status) { return status.st_mtim; }
#endif

}  // namespace

RegularFile::RegularFile(const std::filesystem::path& path)
    : path_(std::filesystem::absolute(path)),
      file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (file_ < 0) {
    const int error = errno;
    throw FileError(fmt::format("[open] {}: cannot open: {}{}", path.string(), std::strerror(error),
                                error == EMFILE ? "; raise the limit (ulimit -n)" : ""));
  }
  if (::fstat(file_, &status_) == 0 && S_ISREG(status_.st_mode)) return;
  ::close(file_);
  throw FileError(fmt::format("[open] {}: not a regular file", path.string()));
}

RegularFile::~RegularFile() { close(); }

void RegularFile::close() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void RegularFile::read(std::size_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const std::size_t most = std::min(to.size(), kMostAtOnce);
    const ssize_t count = ::pread(file_, to.data(), most, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw FileError(
          fmt::format("[read] {}: cannot be read at byte {}: {}; nothing that was read counts",
                      path_.string(), offset, std::strerror(errno)));
    }
    if (count == 0) fail_as_shorter();
    offset += static_cast<std::size_t>(count);
    to = to.subspan(static_cast<std::size_t>(count));
  }
}

void RegularFile::fail_as_shorter() const {
  throw FileError(fmt::format(
      "[read] {}: the file became shorter or unreadable while it was read; nothing that "
      "was read counts, run again when nobody writes to it",
      path_.string()));
}

void RegularFile::require_unchanged() const {
  struct stat now = {};
  const bool there = ::stat(path_.c_str(), &now) == 0 && now.st_dev == status_.st_dev &&
                     now.st_ino == status_.st_ino;
  if (!there) return;
  if (now.st_size == status_.st_size && written_at(now).tv_sec == written_at(status_).tv_sec &&
      written_at(now).tv_nsec == written_at(status_).tv_nsec) {
    return;
  }
  throw FileError(fmt::format(
      "[read] {}: the file was changed while it was read; run again when nobody writes to it",
      path_.string()));
}

std::string read_file(const std::filesystem::path& path, std::size_t most) {
  const RegularFile file(path);
  // One byte more than the file has, to see whether it grows meanwhile.
  std::string text(std::min(most, file.size()) + 1, '\0');
  std::size_t size = 0;
  while (size < most) {
    if (size == text.size()) text.resize(std::min(most, 2 * text.size()));
    const ssize_t count = ::read(file.descriptor(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw FileError(
          fmt::format("[open] {}: cannot read: {}", path.string(), std::strerror(errno)));
    }
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(std::min(size, most));
  return text;
}

}  // namespace regauge::io
