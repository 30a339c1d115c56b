#include "regauge/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace regauge {
namespace {

// Controls; marks and overrides of direction; what takes no place on a screen.
constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 9> kSpelledOut = {
    {{0x00, 0x1f},
     {0x7f, 0x9f},
     {0x61c, 0x61c},
     {0x200b, 0x200f},
     {0x2028, 0x202e},
     {0x2060, 0x206f},
     {0xfeff, 0xfeff},
     {0xfff9, 0xfffb},
     {0xe0000, 0xe007f}}};

std::uint32_t code_point(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  std::uint32_t code = byte(0) & (0xffU >> (sequence.size() + 1));
  for (std::size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (byte(i) & 0x3fU);
  return code;
}

std::string spelled_out(std::uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\u{{{:x}}}", code);
  }
}

void append_printable(std::string& result, std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    const std::uint32_t code = code_point(text.substr(0, length));
    const bool spell = std::any_of(kSpelledOut.begin(), kSpelledOut.end(), [&](const auto& range) {
      return range.first <= code && code <= range.second;
    });
    result += spell ? spelled_out(code) : std::string(text.substr(0, length));
    text.remove_prefix(length);
  }
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool bad = (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
                   (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f);
  return bad ? 0 : length;
}

std::string printable(std::string_view text) {
  std::string result;
  append_printable(result, text);
  return result;
}

std::string printable_lines(std::string_view text) {
  std::string result;
  while (true) {
    const std::size_t end = text.find('\n');
    append_printable(result, text.substr(0, end));
    if (end == std::string_view::npos) return result;
    text.remove_prefix(end + 1);
    result += text.empty() || text.starts_with("  ") ? "\n" : "\n  ";
  }
}

}  // namespace regauge
