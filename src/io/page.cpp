#include "regauge/io/page.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "page_style.h"
#include "partial.h"

namespace regauge::io {

std::string escaped(std::string_view raw) {
  using nlohmann::json;
  const std::string text =
      json::parse(json(raw).dump(-1, ' ', false, json::error_handler_t::replace));
  std::string result;
  for (const char c : text) {
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
        result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
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

void write_page(const std::filesystem::path& path, const std::string& page) {
  PartialPath partial(path, false);
  write_file(partial.path(), page, partial.target());
  partial.commit();
}

}  // namespace regauge::io
