#include "codes.h"

#include <algorithm>
#include <cstring>

namespace regauge::io {
namespace {

constexpr std::array<std::uint8_t, 8> kPlain = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr std::array<std::uint8_t, 8> kHighFirst = {1, 0, 3, 2, 5, 4, 7, 6};

// Two codes of each byte, those of the bits from First on first.
template <int First>
void split_bytes(const std::byte* from, std::int64_t pairs, std::uint8_t* to) {
  for (std::int64_t j = 0; j < pairs; ++j) {
    const auto pair = static_cast<std::uint8_t>(from[j]);
    to[2 * j] = static_cast<std::uint8_t>(pair >> First & 15);
    to[2 * j + 1] = static_cast<std::uint8_t>(pair >> (4 - First) & 15);
  }
}

// The eight codes of four bits of a word, each in a byte.
std::uint64_t spread_nibbles(std::uint32_t word) {
  std::uint64_t codes = word;
  codes = (codes | codes << 16) & 0x0000'ffff'0000'ffff;
  codes = (codes | codes << 8) & 0x00ff'00ff'00ff'00ff;
  return (codes | codes << 4) & 0x0f0f'0f0f'0f0f'0f0f;
}

// Eight rows of eight bytes become the columns.
void transpose(std::array<std::uint64_t, 8>& rows) {
  constexpr std::array<std::uint64_t, 3> kLow = {0x0000'0000'ffff'ffff, 0x0000'ffff'0000'ffff,
                                                 0x00ff'00ff'00ff'00ff};
  for (std::size_t stage = 0; stage < 3; ++stage) {
    const std::size_t apart = std::size_t{4} >> stage;
    const int shift = 32 >> stage;
    for (std::size_t i = 0; i < 8; ++i) {
      if ((i & apart) != 0) continue;
      const std::uint64_t other = (rows[i] >> shift ^ rows[i + apart]) & kLow[stage];
      rows[i + apart] ^= other;
      rows[i] ^= other << shift;
    }
  }
}

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
  const bool high_first = order == kHighFirst;
  for (std::int64_t i = 0; i < window.rows; ++i) {
    const std::byte* from = bytes.data() + window.matrix * matrix_bytes +
                            (window.row + i) * line_bytes + window.col * bits / 8;
    std::uint8_t* to = codes.data() + i * window.cols;
    const std::int64_t pairs = window.cols / 2;
    if (bits == 8) {
      std::memcpy(to, from, static_cast<std::size_t>(window.cols));
      continue;
    }
    high_first ? split_bytes<4>(from, pairs, to) : split_bytes<0>(from, pairs, to);
    if (window.cols % 2 != 0) {
      to[window.cols - 1] = static_cast<std::uint8_t>(
          static_cast<unsigned>(from[pairs]) >> (high_first ? 4 : 0) & 15U);
    }
  }
}

// Streams along rows whose codes reach from one word into the next.
void Codes::read_stream(std::span<const std::byte> bytes, const Window& window,
                        std::span<std::uint8_t> codes) const {
  const std::uint32_t mask = (1U << bits) - 1;
  for (std::int64_t i = 0; i < window.rows; ++i) {
    const std::int64_t bit = window.col * bits;
    std::int64_t at =
        window.matrix * matrix_bytes + (window.row + i) * line_bytes + bit / kWordBits * word_bytes;
    std::uint64_t held = word(bytes, at) >> (bit % kWordBits);
    int left = static_cast<int>(kWordBits - bit % kWordBits);
    std::uint8_t* to = codes.data() + i * window.cols;
    for (std::int64_t j = 0; j < window.cols; ++j, held >>= bits, left -= bits) {
      if (left < bits) {
        at += word_bytes;
        held |= std::uint64_t{word(bytes, at)} << left;
        left += kWordBits;
      }
      to[j] = static_cast<std::uint8_t>(held & mask);
    }
  }
}

// The codes of a word from the one at `skipped` on.
void Codes::split_word(std::uint32_t held, std::int64_t skipped, std::int64_t count,
                       std::uint8_t* to) const {
  if (bits == 4 && count == 8) {
    const std::uint64_t all = spread_nibbles(held);
    std::memcpy(to, &all, sizeof all);
    return;
  }
  if (bits == 8 && count == 4) {
    std::memcpy(to, &held, sizeof held);
    return;
  }
  const std::uint32_t mask = (1U << bits) - 1;
  held >>= skipped * bits;
  for (std::int64_t k = 0; k < count; ++k, held >>= bits) {
    to[k] = static_cast<std::uint8_t>(held & mask);
  }
}

// Streams along rows whose words lie side by side with those of the other rows: each word of all
// rows, then the next. Rows often lie a power of two apart, where a cache holds few of them at a
// time: a few words of each row are put together before they go to their places.
void Codes::read_words(std::span<const std::byte> bytes, const Window& window,
                       std::span<std::uint8_t> codes) const {
  constexpr std::int64_t kRows = 64, kWords = 16;
  const std::int64_t in_word = kWordBits / bits, end = window.col + window.cols;
  std::array<std::uint8_t, kRows * kWords * kWordBits> tile;
  for (std::int64_t row = 0; row < window.rows; row += kRows) {
    const std::int64_t rows = std::min(kRows, window.rows - row);
    const std::int64_t line = window.matrix * matrix_bytes + (window.row + row) * line_bytes;
    for (std::int64_t col = window.col; col < end;) {
      const std::int64_t last = std::min((col / in_word + kWords) * in_word, end);
      for (std::int64_t j = col; j < last;) {
        const std::int64_t skipped = j % in_word, count = std::min(in_word - skipped, last - j);
        const std::int64_t at = line + j / in_word * word_bytes;
        for (std::int64_t i = 0; i < rows; ++i) {
          split_word(word(bytes, at + i * line_bytes), skipped, count,
                     tile.data() + i * kWords * in_word + (j - col));
        }
        j += count;
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        std::memcpy(codes.data() + (row + i) * window.cols + (col - window.col),
                    tile.data() + i * kWords * in_word, static_cast<std::size_t>(last - col));
      }
      col = last;
    }
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
      std::int64_t j = tile;
      for (; bits == 4 && count == 8 && j + 8 <= end; j += 8) {
        std::array<std::uint64_t, 8> square;
        for (std::int64_t k = 0; k < 8; ++k) {
          square[static_cast<std::size_t>(k)] =
              spread_nibbles(word(bytes, first + (window.col + j + k) * line_bytes));
        }
        transpose(square);
        for (std::int64_t k = 0; k < 8; ++k) {
          std::memcpy(codes.data() + (i + k) * window.cols + j,
                      &square[order[static_cast<std::size_t>(k)]], 8);
        }
      }
      for (; j < end; ++j) {
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
  if (along_rows && order == kPlain) {
    return kWordBits % bits == 0 ? read_words(bytes, window, codes)
                                 : read_stream(bytes, window, codes);
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
