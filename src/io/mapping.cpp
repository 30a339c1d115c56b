#include "mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "regauge/base/error.h"

namespace regauge::io {
namespace {

[[noreturn]] void fail_to_open(const std::filesystem::path& path, const char* what, int error) {
  throw FileError(fmt::format("[open] {}: {}: {}", path.string(), what, std::strerror(error)));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail_to_open(path, "cannot open", errno);
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(file);
    throw FileError(fmt::format("[open] {}: not a regular file", path.string()));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* start = nullptr;
  if (size > 0) start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  ::close(file);
  if (start == MAP_FAILED) fail_to_open(path, "cannot map into memory", error);
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(std::size_t offset, std::size_t length) const {
  if (length == 0) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t first = offset / page * page;
  ::madvise(const_cast<std::byte*>(bytes_.data()) + first, offset + length - first, MADV_DONTNEED);
}

}  // namespace regauge::io
