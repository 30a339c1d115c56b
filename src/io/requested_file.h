#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "file_bytes.h"

namespace regauge::io {

// Where the bytes of a RequestedFile come from. All members may be called from several threads.
class RangeReader {
 public:
  virtual ~RangeReader() = default;
  virtual std::size_t size() const = 0;
  // One request: fills `to`, which lies within one piece_around(). Throws FileError.
  virtual void read(std::size_t offset, std::span<std::byte> to) const = 0;
  virtual void require_intact() const = 0;
};

// Files are read in pieces whose bounds do not depend on who reads: at the beginning, where the
// header is, of 64 KiB, 64 KiB, 128 KiB, 256 KiB, ..., so that a header costs at most twice its
// size, and from `largest` on of `largest` bytes.
struct FilePiece {
  std::size_t begin, length;
};
inline constexpr std::size_t kRequestBytes = std::size_t{1} << 23;
FilePiece piece_around(std::size_t offset, std::size_t file_size,
                       std::size_t largest = kRequestBytes);

// A file that is read by requests: large intervals piece by piece, several at a time; small ones
// from pieces of a megabyte, of which the last few are kept for all files together, as are the last
// four runs above 16 MiB that bytes() gave.
class RequestedFile : public FileBytes {
 public:
  explicit RequestedFile(std::unique_ptr<const RangeReader> reader);
  ~RequestedFile() override;

  std::size_t size() const override { return size_; }
  Bytes bytes(std::size_t offset, std::size_t length) const override;
  void read(std::size_t offset, std::span<std::byte> to) const override;
  void release(std::size_t, std::size_t) const override {}
  void require_read() const override {}  // read() throws
  void require_intact() const override { reader_->require_intact(); }

 private:
  Bytes small_piece(FilePiece piece) const;

  std::unique_ptr<const RangeReader> reader_;
  std::size_t size_;
};

// Reads a local file with pread.
std::unique_ptr<const RangeReader> local_reader(const std::filesystem::path& path);

}  // namespace regauge::io
