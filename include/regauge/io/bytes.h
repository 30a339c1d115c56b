#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace regauge {

namespace io {
class FileBytes;
}

// Bytes in memory that stay there as long as this or a copy of it does; converts to a span of them.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr)
      : bytes_(bytes), owner_(std::move(owner)) {}

  const std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::byte& operator[](std::size_t at) const { return bytes_[at]; }
  auto begin() const { return bytes_.begin(); }
  auto end() const { return bytes_.end(); }
  Bytes range(std::size_t offset, std::size_t length) const {
    return Bytes(bytes_.subspan(offset, length), owner_);
  }
  // Valid as long as this is.
  std::span<const std::byte> subspan(std::size_t offset, std::size_t length) const {
    return bytes_.subspan(offset, length);
  }

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;  // of memory that is not the checkpoint's
};

template <class Memory>
concept BytesInMemory = std::convertible_to<const Memory&, std::span<const std::byte>>;

// A run of bytes, in memory or in a file from which they are read when they are asked for. A view:
// valid as long as what holds them. What reads throws FileError.
class ByteRange {
 public:
  ByteRange() = default;
  // Of memory: a span or a container of bytes.
  template <BytesInMemory Memory>
  ByteRange(const Memory& memory)  // NOLINT: it is one
      : memory_(memory), size_(memory_.size()) {}
  // Throws UsageError unless the interval lies in the file.
  ByteRange(const io::FileBytes& file, std::size_t offset, std::size_t length);

  std::size_t size() const { return size_; }
  bool in_memory() const { return file_ == nullptr; }
  // Throws UsageError unless the interval lies in this one.
  ByteRange range(std::size_t offset, std::size_t length) const;

  Bytes bytes() const;
  Bytes bytes(std::size_t offset, std::size_t length) const {
    return range(offset, length).bytes();
  }
  // A copy; `to` is as long as this.
  void read(std::span<std::byte> to) const;

 private:
  std::span<const std::byte> memory_;
  const io::FileBytes* file_ = nullptr;  // in place of memory
  std::size_t offset_ = 0, size_ = 0;
};

}  // namespace regauge
