#include "memory_bytes.h"

#include <fmt/format.h>

#include <algorithm>

#include "regauge/base/error.h"

namespace regauge::io {
namespace {

void copy(std::span<const std::byte> from, std::span<std::byte> to) {
  std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

void HeldBytes::read(std::size_t offset, std::span<std::byte> to) const {
  copy(bytes_.subspan(offset, to.size()), to);
}

Bytes MadeBytes::bytes(std::size_t offset, std::size_t length) const {
  Bytes all;
  {
    const std::scoped_lock lock(mutex_);
    all = made_;
  }
  if (all.empty()) all = make_();
  if (all.size() != size_) {
    throw UsageError(fmt::format("[checkpoint] a tensor was made with {} bytes in the place of {}",
                                 all.size(), size_));
  }
  const std::scoped_lock lock(mutex_);
  made_ = all;
  is_read_ = is_read_ || offset + length == size_;
  return all.range(offset, length);
}

void MadeBytes::read(std::size_t offset, std::span<std::byte> to) const {
  const Bytes of_file = bytes(offset, to.size());
  copy(of_file, to);
}

void MadeBytes::release(std::size_t, std::size_t) const {
  const std::scoped_lock lock(mutex_);
  if (!is_read_) return;
  made_ = {};
  is_read_ = false;
}

}  // namespace regauge::io
