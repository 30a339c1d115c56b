#include "codes.h"

#include <algorithm>
#include <cstring>

namespace regauge::io {
namespace {

constexpr std::array<std::uint8_t, 8> kPlain = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr std::array<std::uint8_t, 8> kHighFirst = {1, 0, 3, 2, 5, 4, 7, 6};

}  // namespace

// The last word may be cut short by the end of the tensor.
std::uint32_t Codes::word(std::span<const std::byte> bytes, std::int64_t at) const {
  std::uint32_t value = 0;
  const auto begin = static_cast<std::size_t>(at);
  if (begin + sizeof value <= bytes.size()) {
    std::memcpy(&value, bytes.data() + begin, sizeof value);
  } else if (begin < bytes.size()) {
    std::memcpy(&value, bytes.data() + begin, bytes.size() - begin);
  }
  return value + added;
}

std::uint8_t Codes::one(std::span<const std::byte> bytes, std::int64_t line,
                        std::int64_t place) const {
  const std::int64_t ordered = place / 8 * 8 + order[static_cast<std::size_t>(place % 8)];
  const std::int64_t bit = ordered * bits, at = line + bit / kWordBits * word_bytes;
  const int shift = static_cast<int>(bit % kWordBits);
  std::uint32_t value = word(bytes, at) >> shift;
  if (shift + bits > kWordBits) value |= word(bytes, at + word_bytes) << (32 - shift);
  return static_cast<std::uint8_t>(value & ((1U << bits) - 1));
}

// Rows of whole bytes that lie in a row, from an even column on.
void Codes::read_bytes(std::span<const std::byte> bytes, const Window& window,
                       std::span<std::uint8_t> codes) const {
  const int first_shift = order == kHighFirst ? 4 : 0;
  for (std::int64_t i = 0; i < window.rows; ++i) {
    const std::byte* from = bytes.data() + window.matrix * matrix_bytes +
                            (window.row + i) * line_bytes + window.col * bits / 8;
    std::uint8_t* to = codes.data() + i * window.cols;
    if (bits == 8) {
      std::memcpy(to, from, static_cast<std::size_t>(window.cols));
      continue;
    }
    for (std::int64_t j = 0; j < window.cols / 2; ++j) {
      const auto pair = static_cast<unsigned>(from[j]);
      to[2 * j] = static_cast<std::uint8_t>(pair >> first_shift & 15U);
      to[2 * j + 1] = static_cast<std::uint8_t>(pair >> (4 - first_shift) & 15U);
    }
    if (window.cols % 2 != 0) {
      to[window.cols - 1] = static_cast<std::uint8_t>(
          static_cast<unsigned>(from[window.cols / 2]) >> first_shift & 15U);
    }
  }
}

// Streams along rows whose words lie side by side with those of the other rows: each word of all
// rows, then the next.
void Codes::read_words(std::span<const std::byte> bytes, const Window& window,
                       std::span<std::uint8_t> codes) const {
  const std::int64_t in_word = kWordBits / bits;
  const std::uint32_t mask = (1U << bits) - 1;
  for (std::int64_t j = 0; j < window.cols;) {
    const std::int64_t place = window.col + j, skipped = place % in_word;
    const std::int64_t count = std::min(in_word - skipped, window.cols - j);
    for (std::int64_t i = 0; i < window.rows; ++i) {
      const std::int64_t line = window.matrix * matrix_bytes + (window.row + i) * line_bytes;
      std::uint32_t held = word(bytes, line + place / in_word * word_bytes) >> (skipped * bits);
      std::uint8_t* to = codes.data() + i * window.cols + j;
      for (std::int64_t k = 0; k < count; ++k, held >>= bits) {
        to[k] = static_cast<std::uint8_t>(held & mask);
      }
    }
    j += count;
  }
}

// Streams down the columns, four or eight codes of a column at a time.
void Codes::read_columns(std::span<const std::byte> bytes, const Window& window,
                         std::span<std::uint8_t> codes) const {
  const std::int64_t in_word = kWordBits / bits;
  const std::uint32_t mask = (1U << bits) - 1;
  std::array<int, 8> shifts;
  for (std::size_t k = 0; k < shifts.size(); ++k) shifts[k] = order[k] * bits % 32;
  constexpr std::int64_t kTile = 32;  // columns whose words are read while they are in the cache
  for (std::int64_t tile = 0; tile < window.cols; tile += kTile) {
    const std::int64_t end = std::min(tile + kTile, window.cols);
    for (std::int64_t i = 0; i < window.rows;) {
      const std::int64_t place = window.row + i, skipped = place % in_word;
      const std::int64_t count = std::min(in_word - skipped, window.rows - i);
      const std::int64_t first = window.matrix * matrix_bytes + place / in_word * word_bytes;
      for (std::int64_t j = tile; j < end; ++j) {
        const std::uint32_t held = word(bytes, first + (window.col + j) * line_bytes);
        std::uint8_t* to = codes.data() + i * window.cols + j;
        for (std::int64_t k = skipped; k < skipped + count; ++k, to += window.cols) {
          *to = static_cast<std::uint8_t>(held >> shifts[static_cast<std::size_t>(k)] & mask);
        }
      }
      i += count;
    }
  }
}

void Codes::read(std::span<const std::byte> bytes, const Window& window,
                 std::span<std::uint8_t> codes) const {
  const bool in_a_row = along_rows && word_bytes == 4 && added == 0;
  const bool nibbles = bits == 4 && window.col % 2 == 0 && (order == kPlain || order == kHighFirst);
  if (in_a_row && (bits == 8 || nibbles)) return read_bytes(bytes, window, codes);
  if (along_rows && order == kPlain && bits < 8 && kWordBits % bits == 0) {
    return read_words(bytes, window, codes);
  }
  const std::int64_t matrix = window.matrix * matrix_bytes;
  if (along_rows) {
    for (std::int64_t i = 0; i < window.rows; ++i) {
      for (std::int64_t j = 0; j < window.cols; ++j) {
        codes[static_cast<std::size_t>(i * window.cols + j)] =
            one(bytes, matrix + (window.row + i) * line_bytes, window.col + j);
      }
    }
    return;
  }
  if (kWordBits % bits == 0 && bits >= 4) return read_columns(bytes, window, codes);
  for (std::int64_t j = 0; j < window.cols; ++j) {
    for (std::int64_t i = 0; i < window.rows; ++i) {
      codes[static_cast<std::size_t>(i * window.cols + j)] =
          one(bytes, matrix + (window.col + j) * line_bytes, window.row + i);
    }
  }
}

}  // namespace regauge::io
