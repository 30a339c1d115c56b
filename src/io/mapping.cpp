#include "mapping.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "regauge/base/error.h"

namespace regauge::io {

MappedFile::MappedFile(const std::filesystem::path& path) : file_(path) {
  if (file_.size() > 0) {
    void* start = ::mmap(nullptr, file_.size(), PROT_READ, MAP_PRIVATE, file_.descriptor(), 0);
    if (start == MAP_FAILED) {
      throw FileError(fmt::format("[open] {}: cannot map into memory: {}", path.string(),
                                  std::strerror(errno)));
    }
    bytes_ = {static_cast<const std::byte*>(start), file_.size()};
    guard_ = std::make_unique<GuardedRange>(start, file_.size());
  }
  file_.close();
}

MappedFile::~MappedFile() {
  guard_.reset();
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::read(std::size_t offset, std::span<std::byte> to) const {
  const auto from = bytes_.subspan(offset, to.size());
  std::copy(from.begin(), from.end(), to.begin());
  require_read();
}

void MappedFile::release(std::size_t offset, std::size_t length) const {
  if (length == 0) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t first = offset / page * page;
  ::madvise(const_cast<std::byte*>(bytes_.data()) + first, offset + length - first, MADV_DONTNEED);
}

void MappedFile::require_read() const {
  if (guard_ != nullptr && guard_->lost()) file_.fail_as_shorter();
}

void MappedFile::require_intact() const {
  require_read();
  file_.require_unchanged();
}

}  // namespace regauge::io
