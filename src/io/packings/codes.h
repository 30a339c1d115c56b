#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace regauge::io {

inline constexpr std::int64_t kWordBits = 32;

// A part of a stack of matrices: `rows` x `cols` of one of them.
struct Window {
  std::int64_t matrix, row, rows, col, cols;
};

// Where the codes of a stack of matrices lie: streams of codes of 1 to 8 bits, the lowest bits
// first, in words of kWordBits; a code may reach into the next word.
struct Codes {
  int bits = 8;
  bool along_rows = true;         // a stream for each row, else for each column
  std::int64_t line_bytes = 0;    // from the beginning of a stream to that of the next
  std::int64_t word_bytes = 4;    // from a word of a stream to the next
  std::int64_t matrix_bytes = 0;  // from a matrix to the next
  std::array<std::uint8_t, 8> order = {0, 1, 2, 3, 4, 5, 6, 7};  // the place of each of eight codes
  std::uint32_t added = 0;                                       // to each word before it is read

  // Row by row. `bytes` are the whole tensor, whose size was checked.
  void read(std::span<const std::byte> bytes, const Window& window,
            std::span<std::uint8_t> codes) const;

 private:
  std::uint32_t word(std::span<const std::byte> bytes, std::int64_t at) const;
  std::uint8_t one(std::span<const std::byte> bytes, std::int64_t line, std::int64_t place) const;
  void read_bytes(std::span<const std::byte> bytes, const Window& window,
                  std::span<std::uint8_t> codes) const;
  void read_columns(std::span<const std::byte> bytes, const Window& window,
                    std::span<std::uint8_t> codes) const;
  void read_stream(std::span<const std::byte> bytes, const Window& window,
                   std::span<std::uint8_t> codes) const;
  void split_word(std::uint32_t held, std::int64_t skipped, std::int64_t count,
                  std::uint8_t* to) const;
  void read_words(std::span<const std::byte> bytes, const Window& window,
                  std::span<std::uint8_t> codes) const;
};

}  // namespace regauge::io
