#include "gguf_split.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "corrupt.h"
#include "regauge/base/error.h"

namespace regauge::io {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kMostParts = 99'999;  // five digits in a name

std::string part_ending(std::uint64_t number, std::uint64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number, count);
}

std::uint64_t whole_number(const json& config, const char* key, const std::string& where) {
  const auto found = config.find(key);
  if (found == config.end()) return 0;
  if (!found->is_number_integer() || *found < 0 || *found > kMostParts) {
    throw CorruptFile(Corruption::bad_metadata,
                      fmt::format("{}: {} is {}, not a number of parts", where, key,
                                  found->dump(-1, ' ', false, json::error_handler_t::replace)));
  }
  return found->get<std::uint64_t>();
}

struct Part {
  std::uint64_t index, count;
};

Part part_of(const fs::path& file, const json& config) {
  const std::string where = fmt::format("[gguf] {}", file.filename().string());
  const Part part{whole_number(config, "split.no", where),
                  whole_number(config, "split.count", where)};
  if (part.count > 0 && part.index >= part.count) {
    throw CorruptFile(
        Corruption::bad_metadata,
        fmt::format("{}: split.no is {}, but split.count is {}", where, part.index, part.count));
  }
  return part;
}

}  // namespace

std::vector<fs::path> gguf_parts(const fs::path& file, const json& config) {
  const Part part = part_of(file, config);
  if (part.count <= 1) return {};
  const std::string name = file.filename().string();
  const std::string ending = part_ending(part.index + 1, part.count);
  if (!name.ends_with(ending)) {
    throw UsageError(fmt::format(
        "[gguf] {}: this is part {} of {} of a split model, whose others are found by their names; "
        "name it as llama.cpp does, NAME{}",
        name, part.index + 1, part.count, ending));
  }
  const std::string stem = name.substr(0, name.size() - ending.size());
  std::vector<fs::path> parts;
  for (std::uint64_t i = 1; i <= part.count; ++i) {
    parts.push_back(file.parent_path() / (stem + part_ending(i, part.count)));
  }
  return parts;
}

void require_gguf_part(const fs::path& file, const json& config, std::size_t index,
                       std::size_t count) {
  const Part part = part_of(file, config);
  if (part.index == index && part.count == count) return;
  throw CorruptFile(
      Corruption::bad_metadata,
      fmt::format("[gguf] {}: its metadata says part {} of {}; does it belong to another model?",
                  file.filename().string(), part.index + 1, part.count));
}

fs::path first_gguf_part(const fs::path& folder) {
  std::optional<fs::path> first;
  std::string stem, after;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".gguf")) continue;
    names.push_back(name);
    const std::size_t at = name.rfind("-00001-of-");
    if (at == std::string::npos) continue;
    if (first) return {};
    first = entry.path();
    stem = name.substr(0, at + 1);
    after = name.substr(at + std::string("-00001").size());
  }
  if (!first) return {};
  for (const std::string& name : names) {
    const bool part = name.size() == stem.size() + 5 + after.size() && name.starts_with(stem) &&
                      name.ends_with(after);
    if (!part) return {};
  }
  return *first;
}

}  // namespace regauge::io
