#pragma once

#include <string>
#include <vector>

namespace regauge::testing {

// What is wrong with a text as XML, as far as we write it: tags that match, attributes in quotes,
// no stray < or &. Empty: nothing.
inline std::string xml_problem(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '&' && text.compare(i, 2, "&#") != 0) return "stray & at " + std::to_string(i);
    if (text[i] == '>') return "stray > at " + std::to_string(i);
    if (text[i] != '<') continue;
    std::size_t end = i + 1;
    for (bool quoted = false; end < text.size() && (quoted || text[end] != '>'); ++end) {
      if (text[end] == '"') quoted = !quoted;
      if (text[end] == '<') return "< within a tag at " + std::to_string(end);
    }
    if (end >= text.size()) return "a tag without end";
    const std::string tag = text.substr(i + 1, end - i - 1);
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /\n", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "</" + tag.substr(1) + "> unasked";
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    i = end;
  }
  return open.empty() ? "" : "<" + open.back() + "> left open";
}

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace regauge::testing
