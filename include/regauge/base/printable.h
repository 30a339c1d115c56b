#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace regauge {

// The length of the UTF-8 sequence that begins `text`, or 0 if none does: overlong forms,
// surrogates and code points above U+10FFFF are refused. `text` is not empty.
std::size_t utf8_length(std::string_view text);

// Text from a file, a name or a path for people to read. Control characters, characters that change
// the direction of writing or cannot be seen, and bytes that are not UTF-8 are spelled out as C
// does (an escape character as u{1b} behind a backslash). All else stays as it is. The result is
// UTF-8, one line, and cannot move a cursor.
std::string printable(std::string_view text);

// The same for a text of several lines: line feeds stay, and lines after the first begin with two
// spaces at least, so that no line can be taken for one of another's.
std::string printable_lines(std::string_view text);

}  // namespace regauge
