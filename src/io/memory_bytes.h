#pragma once

#include <functional>
#include <mutex>

#include "file_bytes.h"

namespace regauge::io {

// Bytes that are in memory already.
class HeldBytes : public FileBytes {
 public:
  HeldBytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes, std::move(owner)) {}

  std::size_t size() const override { return bytes_.size(); }
  std::span<const std::byte> memory() const override { return bytes_.subspan(0, bytes_.size()); }
  Bytes bytes(std::size_t offset, std::size_t length) const override {
    return bytes_.range(offset, length);
  }
  void read(std::size_t offset, std::span<std::byte> to) const override;
  void release(std::size_t, std::size_t) const override {}
  void require_read() const override {}
  void require_intact() const override {}

 private:
  Bytes bytes_;
};

// Bytes that are made when they are asked for, all at once, and kept until they were read to their
// end and released: a pass over them makes them once.
class MadeBytes : public FileBytes {
 public:
  MadeBytes(std::size_t size, std::function<Bytes()> make) : size_(size), make_(std::move(make)) {}

  std::size_t size() const override { return size_; }
  Bytes bytes(std::size_t offset, std::size_t length) const override;
  void read(std::size_t offset, std::span<std::byte> to) const override;
  void release(std::size_t offset, std::size_t length) const override;
  void require_read() const override {}
  void require_intact() const override {}

 private:
  std::size_t size_;
  std::function<Bytes()> make_;
  mutable std::mutex mutex_;  // of what follows; free while bytes are made
  mutable Bytes made_;
  mutable bool is_read_ = false;
};

}  // namespace regauge::io
