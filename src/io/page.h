#pragma once

#include <string>
#include <string_view>

namespace regauge::io {

// What every page of ours has in common: one HTML file that needs nothing else, light or dark as
// the reader likes it, well-formed XML.

// Text for element content and quoted attributes, made printable; line feeds and tabs are spaces.
std::string escaped(std::string_view text);

// A whole page: the common look, then `style` (CSS) and `body` (HTML) as they are. `title` is text.
std::string html_page(std::string_view title, std::string_view style, std::string_view body);

}  // namespace regauge::io
