#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "regauge/base/progress.h"
#include "regauge/io/bytes.h"

namespace regauge {

// SHA-256 (FIPS 180-4), fed in pieces.
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  // 64 hexadecimal digits; nothing may be added afterwards.
  std::string finish();

 private:
  friend class Sha256Lanes;
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_ = {};
  std::uint64_t length_ = 0;  // bytes so far
};

// The digest of a file's bytes, as sha256sum prints it. Throws FileError.
std::string sha256_of_file(const std::filesystem::path& path, Progress& progress);

// Told that the bytes [offset, offset + length) of messages[message] have been read.
using Sha256Read = std::function<void(std::size_t message, std::size_t offset, std::size_t length)>;

// The digest of each message. Throws FileError if a message cannot be read. Four messages or more
// are hashed side by side where the processor has vectors for it, which is about three times as
// fast as one after the other.
std::vector<std::string> sha256_of_each(std::span<const ByteRange> messages,
                                        const Sha256Read& read);

// The same, where the progress divides loops as a loop of that name.
std::vector<std::string> sha256_of_each(const std::string& loop,
                                        std::span<const ByteRange> messages, Progress& progress,
                                        const Sha256Read& read);

}  // namespace regauge
