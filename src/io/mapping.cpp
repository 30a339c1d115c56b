#include "mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "regauge/base/error.h"

namespace regauge::io {
namespace {

[[noreturn]] void fail_to_open(const std::filesystem::path& path, const char* what, int error) {
  throw FileError(fmt::format("[open] {}: {}: {}", path.string(), what, std::strerror(error)));
}

#ifdef __APPLE__
const timespec& written_at(const struct stat& status) { return status.st_mtimespec; }
#else
const timespec& written_at(const struct stat& status) { return status.st_mtim; }
#endif

// A regular file, opened for reading.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (file_ < 0) fail_to_open(path, "cannot open", errno);
    if (::fstat(file_, &status_) == 0 && S_ISREG(status_.st_mode)) return;
    ::close(file_);
    throw FileError(fmt::format("[open] {}: not a regular file", path.string()));
  }
  ~OpenFile() { ::close(file_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return file_; }
  const struct stat& status() const { return status_; }

 private:
  int file_;
  struct stat status_ = {};
};

}  // namespace

std::string read_file(const std::filesystem::path& path, std::size_t most) {
  const OpenFile file(path);
  // One byte more than the file has, to see whether it grows meanwhile.
  const auto expected = static_cast<std::size_t>(file.status().st_size);
  std::string text(std::min(most, expected) + 1, '\0');
  std::size_t size = 0;
  while (size < most) {
    if (size == text.size()) text.resize(std::min(most, 2 * text.size()));
    const ssize_t count = ::read(file.descriptor(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to_open(path, "cannot read", errno);
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(std::min(size, most));
  return text;
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(std::filesystem::absolute(path)) {
  const OpenFile file(path);
  status_ = file.status();
  const auto size = static_cast<std::size_t>(status_.st_size);
  if (size == 0) return;
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (start == MAP_FAILED) fail_to_open(path, "cannot map into memory", errno);
  bytes_ = {static_cast<const std::byte*>(start), size};
  guard_ = std::make_unique<GuardedRange>(start, size);
}

MappedFile::~MappedFile() {
  guard_.reset();
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(std::size_t offset, std::size_t length) const {
  if (length == 0) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t first = offset / page * page;
  ::madvise(const_cast<std::byte*>(bytes_.data()) + first, offset + length - first, MADV_DONTNEED);
}

void MappedFile::require_read() const {
  if (guard_ == nullptr || !guard_->lost()) return;
  throw FileError(fmt::format(
      "[read] {}: the file became shorter or unreadable while it was read; nothing that "
      "was read counts, run again when nobody writes to it",
      path_.string()));
}

void MappedFile::require_intact() const {
  require_read();
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

}  // namespace regauge::io
