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

// A data file that is read while the program runs. What it inherits from is looked for beside it,
// and then among those that are compiled in.
Family read_family(const std::filesystem::path& file) {
  std::list<std::string> texts;  // that `find` has given out
  const auto find = [&](std::string_view name) -> std::optional<std::string_view> {
    const auto beside = file.parent_path() / std::string(name);
    if (!std::filesystem::exists(beside)) return embedded(name);
    return texts.emplace_back(text_of(beside));
  };
  return parse_family(file.filename().string(), text_of(file), find);
}

std::list<Family> known_at_start() {
  std::list<Family> result;
  for (const auto& file : embedded_architectures()) {
    result.push_back(parse_family(file.name, file.text, embedded));
  }
  const char* listed = std::getenv(kVariable);
  std::stringstream paths(listed == nullptr ? "" : listed);
  for (std::string path; std::getline(paths, path, ':');) {
    if (!path.empty()) result.push_front(read_family(path));
  }
  return result;
}

std::list<Family>& list() {
  static std::list<Family> families = known_at_start();
  return families;
}

}  // namespace

const std::list<Family>& all_families() { return list(); }

void register_family(const std::filesystem::path& file) { list().push_front(read_family(file)); }

const Family& family_of(std::string_view name, Format format) {
  std::vector<std::string> known;
  for (const auto& family : all_families()) {
    if (family.format != format) continue;
    if (family.name == name) return family;
    known.push_back(family.name);
  }
  throw UsageError(fmt::format("[arch] no family '{}' in {}; known there are {}", name,
                               format_name(format), fmt::join(known, ", ")));
}

const Family& recognise(const Json& config, Format format) {
  std::set<std::string> keys;
  std::vector<std::string> known;
  for (const auto& family : all_families()) {
    if (family.format != format) continue;
    const bool matches = std::all_of(family.match.begin(), family.match.end(), [&](const auto& m) {
      const Json* value = find_path(config, m.first);
      return value != nullptr && *value == m.second;
    });
    if (matches) return family;
    known.push_back(family.name);
    if (!family.match.empty()) keys.insert(family.match.front().first);
  }
  std::string found;
  for (const auto& key : keys) {
    const Json* value = find_path(config, key);
    found += fmt::format("{}{} is {}", found.empty() ? "" : ", ", key,
                         value == nullptr ? "absent" : value->dump());
  }
  throw UsageError(
      fmt::format("[arch] unknown family: {}; known in {} are {}. A new one is a data file: see "
                  "docs/adding-an-architecture.md",
                  found, format_name(format), fmt::join(known, ", ")));
}

}  // namespace regauge
