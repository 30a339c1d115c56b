#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "config_path.h"
#include "embedded.h"
#include "family.h"
#include "io/close_names.h"
#include "regauge/arch/layout.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

constexpr const char* kVariable = "REGAUGE_FAMILIES";

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw UsageError(fmt::format("[architectures] {}: cannot be read", file.string()));
  return text.str();
}

std::optional<std::string_view> embedded(std::string_view name) {
  for (const auto& file : embedded_architectures()) {
    if (file.name == name) return file.text;
  }
  return std::nullopt;
}

void add_embedded(std::list<KnownFamily>& families) {
  for (const auto& file : embedded_architectures()) {
    families.emplace_back(file.text,
                          [file] { return parse_family(file.name, file.text, embedded); });
  }
}

// A data file that is read while the program runs, at once, so that its mistakes are seen. What it
// inherits from is looked for beside it, and then among those that are compiled in.
void add_file(std::list<KnownFamily>& families, const std::filesystem::path& file) {
  std::list<std::string> texts;  // that `find` has given out
  const auto find = [&](std::string_view name) -> std::optional<std::string_view> {
    const auto beside = file.parent_path() / std::string(name);
    if (!std::filesystem::exists(beside)) return embedded(name);
    return texts.emplace_back(text_of(beside));
  };
  const std::string text = text_of(file), name = file.filename().string();
  families.emplace_front(text, [family = parse_family(name, text, find)] { return family; });
}

void add_text(std::list<KnownFamily>& families, std::string_view text) {
  families.emplace_front(
      text, [family = parse_family("the given layout", text, embedded)] { return family; });
}

std::list<KnownFamily> known_at_start() {
  std::list<KnownFamily> result;
  add_embedded(result);
  const char* listed = std::getenv(kVariable);
  std::stringstream paths(listed == nullptr ? "" : listed);
  for (std::string path; std::getline(paths, path, ':');) {
    if (!path.empty()) add_file(result, path);
  }
  return result;
}

std::list<KnownFamily>& list() {
  static std::list<KnownFamily> families = known_at_start();
  return families;
}

}  // namespace

KnownFamily::KnownFamily(std::string_view text, std::function<Family()> parse)
    : parse_(std::move(parse)) {
  const std::set<std::string> first_sight{"family", "format", "match"};
  const auto keep = [&](int depth, Json::parse_event_t event, const Json& key) {
    return depth != 1 || event != Json::parse_event_t::key || first_sight.contains(key);
  };
  const Json json = Json::parse(text, keep);
  name_ = json.at("family").get<std::string>();
  format_ = format_named(json.at("format").get<std::string>()).value();
  const bool own =
      json.contains("match") && json["match"].dump().find("{family}") == std::string::npos;
  if (!own) return;
  match_.emplace();
  for (const auto& [key, value] : json["match"].items()) match_->emplace_back(key, value);
}

const Family& KnownFamily::family() const {
  std::call_once(once_, [&] { family_ = parse_(); });
  return *family_;
}

bool KnownFamily::matches(const Json& config) const {
  const auto& match = match_ ? *match_ : family().match;
  return std::all_of(match.begin(), match.end(), [&](const auto& m) {
    const Json* value = find_path(config, m.first);
    if (value == nullptr) return false;
    if (m.second.is_object()) return value->is_number() && *value > m.second.at("above");
    return *value == m.second;
  });
}

const std::list<KnownFamily>& all_families() { return list(); }

void register_family(const std::filesystem::path& file) { add_file(list(), file); }

void register_family_text(std::string_view text) { add_text(list(), text); }

const Family& family_of(std::string_view name, Format format) {
  std::vector<std::string> known;
  for (const auto& family : all_families()) {
    if (family.format() != format) continue;
    if (family.name() == name) return family.family();
    known.push_back(family.name());
  }
  throw UsageError(fmt::format("[arch] no family '{}' in {}; known there are {}", name,
                               format_name(format), fmt::join(known, ", ")));
}

const Family& recognise(const Json& config, Format format) {
  for (const auto& family : all_families()) {
    if (family.format() == format && family.matches(config)) return family.family();
  }
  std::set<std::string> keys;
  std::vector<std::string_view> known;
  for (const auto& family : all_families()) {
    if (family.format() != format) continue;
    known.push_back(family.name());
    const auto& match = family.family().match;
    if (!match.empty()) keys.insert(match.front().first);
  }
  std::string found;
  std::vector<std::string> close;
  for (const auto& key : keys) {
    const Json* value = find_path(config, key);
    found += fmt::format("{}{} is {}", found.empty() ? "" : ", ", key,
                         value == nullptr ? "absent" : value->dump());
    if (value != nullptr && value->is_string()) {
      close = io::close_names(value->get_ref<const std::string&>(), known);
    }
  }
  const std::string like =
      close.empty() ? "" : fmt::format(" Known with a name like it: {}.", fmt::join(close, ", "));
  throw UsageError(fmt::format(
      "[arch] unknown family: {}.{} docs/families.md lists the {} that are known in {}; "
      "a new one is a data file: see docs/adding-an-architecture.md",
      found, like, known.size(), format_name(format)));
}

}  // namespace regauge
