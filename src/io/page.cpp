#include "page.h"

#include <fmt/format.h>

#include <algorithm>

#include "page_style.h"
#include "regauge/base/printable.h"

namespace regauge::io {

std::string escaped(std::string_view raw) {
  std::string text(raw);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  std::string result;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        result += "&#38;";
        break;
      case '<':
        result += "&#60;";
        break;
      case '>':
        result += "&#62;";
        break;
      case '"':
        result += "&#34;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string html_page(std::string_view title, std::string_view style, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      escaped(title), kPageStyle, style, body);
}

}  // namespace regauge::io
