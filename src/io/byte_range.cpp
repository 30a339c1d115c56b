#include <fmt/format.h>

#include <algorithm>

#include "file_bytes.h"
#include "regauge/base/error.h"
#include "regauge/io/bytes.h"

namespace regauge {
namespace {

void require_inside(std::size_t offset, std::size_t length, std::size_t size) {
  if (offset <= size && length <= size - offset) return;
  throw UsageError(fmt::format("[bytes] [{}, {} + {}) is not within the {} that there are", offset,
                               offset, length, size));
}

}  // namespace

ByteRange::ByteRange(const io::FileBytes& file, std::size_t offset, std::size_t length)
    : size_(length) {
  require_inside(offset, length, file.size());
  if (const auto memory = file.memory(); !memory.empty()) {
    memory_ = memory.subspan(offset, length);
  } else if (length > 0) {
    file_ = &file;
    offset_ = offset;
  }
}

ByteRange ByteRange::range(std::size_t offset, std::size_t length) const {
  require_inside(offset, length, size_);
  if (file_ != nullptr) return {*file_, offset_ + offset, length};
  return memory_.subspan(offset, length);
}

Bytes ByteRange::bytes() const {
  return file_ == nullptr ? Bytes(memory_) : file_->bytes(offset_, size_);
}

void ByteRange::read(std::span<std::byte> to) const {
  if (to.size() != size_) {
    throw UsageError(fmt::format("[bytes] there are {}; {} were asked for", size_, to.size()));
  }
  if (file_ != nullptr) return file_->read(offset_, to);
  std::copy(memory_.begin(), memory_.end(), to.begin());
}

}  // namespace regauge
