#include "regauge/io/json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <set>
#include <vector>

#include "mapping.h"
#include "regauge/io/corrupt.h"

namespace regauge::io {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxBytes = 100'000'000;

// The length of the UTF-8 sequence that begins `text`, or 0: overlong forms, surrogates and code
// points above U+10FFFF are refused.
std::size_t sequence_length(std::string_view text) {
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

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

nlohmann::json parse_json_object(std::string_view text, const std::string& where) {
  using nlohmann::json;
  if (!is_utf8(text)) {
    throw CorruptFile(Corruption::not_utf8, fmt::format("{}: the JSON text is not UTF-8", where));
  }
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) {
      throw CorruptFile(Corruption::not_json,
                        fmt::format("{}: JSON nested more than {} deep", where, kMaxDepth));
    }
    if (event == json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) {
        throw CorruptFile(Corruption::duplicate_key,
                          fmt::format("{}: the key '{}' is there twice", where, key));
      }
    }
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(text, check);
  } catch (const json::exception& error) {
    throw CorruptFile(Corruption::not_json, fmt::format("{}: not JSON: {}", where, error.what()));
  }
  if (!parsed.is_object()) {
    throw CorruptFile(Corruption::not_json, fmt::format("{}: a JSON object was expected, not {}",
                                                        where, parsed.type_name()));
  }
  return parsed;
}

nlohmann::json read_json_object(const std::filesystem::path& path, const std::string& where) {
  const MappedFile file(path);
  if (file.bytes().size() > kMaxBytes) {
    throw CorruptFile(Corruption::header_too_large,
                      fmt::format("{}: {} bytes of JSON are more than {}", where,
                                  file.bytes().size(), kMaxBytes));
  }
  return parse_json_object(
      {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, where);
}

}  // namespace regauge::io
