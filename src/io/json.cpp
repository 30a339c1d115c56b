#include "json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>
#include <vector>

#include "corrupt.h"
#include "file_bytes.h"
#include "regauge/base/error.h"
#include "regauge/base/printable.h"

namespace regauge::io {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxBytes = 100'000'000;

// Builds the value as the parser goes, in time n log n. Refuses a key that is there twice and
// nesting beyond kMaxDepth.
class StrictReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Json = nlohmann::json;
  explicit StrictReader(const std::string& where) : where_(where) {}

  Json& value() { return root_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& members = open_.back()->get_ref<Json::object_t&>();
    const auto [member, is_new] = members.try_emplace(std::move(name));
    if (!is_new) {
      throw CorruptFile(Corruption::duplicate_key,
                        fmt::format("{}: the key '{}' is there twice", where_, member->first));
    }
    member_ = &member->second;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    throw CorruptFile(Corruption::not_json, fmt::format("{}: not JSON: {}", where_, error.what()));
  }

 private:
  // Where the next value goes: the root, the end of the open array, or the member of the last key.
  Json& place() {
    if (open_.empty()) return root_;
    if (!open_.back()->is_array()) return *member_;
    return open_.back()->get_ref<Json::array_t&>().emplace_back();
  }

  bool add(Json value) {
    place() = std::move(value);
    return true;
  }

  bool open(Json empty) {
    if (open_.size() >= kMaxDepth) {
      throw CorruptFile(Corruption::not_json,
                        fmt::format("{}: JSON nested more than {} deep", where_, kMaxDepth));
    }
    Json& opened = place();
    opened = std::move(empty);
    open_.push_back(&opened);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& where_;
  Json root_;
  std::vector<Json*> open_;  // outermost first; none moves while it is open
  Json* member_ = nullptr;
};

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void require_utf8(const std::filesystem::path& path, std::string_view what) {
  if (is_utf8(path.string())) return;
  throw UsageError(fmt::format(
      "[{}] {}: the path is not UTF-8; give the file or folder another name", what, path.string()));
}

nlohmann::json parse_json_object(std::string_view text, const std::string& where) {
  if (!is_utf8(text)) {
    throw CorruptFile(Corruption::not_utf8, fmt::format("{}: the JSON text is not UTF-8", where));
  }
  StrictReader reader(where);
  nlohmann::json::sax_parse(text, &reader);
  if (!reader.value().is_object()) {
    throw CorruptFile(Corruption::not_json, fmt::format("{}: a JSON object was expected, not {}",
                                                        where, reader.value().type_name()));
  }
  return std::move(reader.value());
}

std::string read_json_text(const std::filesystem::path& path, const std::string& where) {
  const std::string text = read_text(path, kMaxBytes + 1);
  if (text.size() > kMaxBytes) {
    throw CorruptFile(Corruption::header_too_large,
                      fmt::format("{}: the JSON is longer than {} bytes", where, kMaxBytes));
  }
  return text;
}

nlohmann::json read_json_object(const std::filesystem::path& path, const std::string& where) {
  return parse_json_object(read_json_text(path, where), where);
}

}  // namespace regauge::io
