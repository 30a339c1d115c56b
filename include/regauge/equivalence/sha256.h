#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "regauge/base/progress.h"

namespace regauge {

// SHA-256 (FIPS 180-4), fed in pieces.
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  // 64 hexadecimal digits; nothing may be added afterwards.
  std::string finish();

 private:
  void compress(const std::byte* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_ = {};
  std::uint64_t length_ = 0;  // bytes so far
};

// Of a file's bytes, as sha256sum prints it. Throws FileError.
std::string sha256_of_file(const std::filesystem::path& path, Progress& progress);

}  // namespace regauge
