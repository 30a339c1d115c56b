#include "shard_index.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <set>

#include "corrupt.h"
#include "json.h"

namespace regauge::io {

using nlohmann::json;

namespace {

constexpr std::string_view kSafetensors = ".safetensors", kBin = ".bin";

// The plain name of a file of this kind, neither hidden nor in another folder.
bool is_plain_name(std::string_view name, std::string_view suffix) {
  return name.size() > suffix.size() && name.ends_with(suffix) && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\:\0", 4)) == std::string_view::npos;
}

}  // namespace

bool is_shard_name(std::string_view name) { return is_plain_name(name, kSafetensors); }

std::vector<std::string> names_as_safetensors(const std::vector<std::filesystem::path>& files) {
  constexpr std::string_view kTorch = "pytorch_";
  std::set<std::string> taken;
  std::vector<std::string> names;
  for (const auto& file : files) {
    const bool already = file.extension() == kSafetensors;
    if (!already && (files.size() == 1 || file.extension() != kBin)) return {kSingleFile};
    std::string stem = file.stem().string();
    if (!already && stem.starts_with(kTorch)) stem.erase(0, kTorch.size());
    names.push_back(stem + std::string(kSafetensors));
    if (!taken.insert(names.back()).second) return {kSingleFile};
  }
  return names;
}

std::vector<std::string> ShardIndex::files() const {
  std::set<std::string> names;
  for (const auto& [tensor, file] : file_of) names.insert(file);
  return {names.begin(), names.end()};
}

ShardIndex parse_shard_index(std::string_view text, const std::string& name) {
  const std::string where = fmt::format("[shard index] {}", name);
  const json parsed = parse_json_object(text, where);
  const auto map = parsed.find("weight_map");
  if (map == parsed.end() || !map->is_object()) {
    throw CorruptFile(Corruption::bad_index,
                      fmt::format("{}: weight_map, an object, was expected", where));
  }
  const std::string_view suffix = name.ends_with(".bin.index.json") ? kBin : kSafetensors;
  ShardIndex index;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) {
      throw CorruptFile(Corruption::bad_index,
                        fmt::format("{}: the file of tensor '{}' is not a string", where, tensor));
    }
    const auto& shard = file.get_ref<const std::string&>();
    if (!is_plain_name(shard, suffix)) {
      throw CorruptFile(
          Corruption::bad_shard_name,
          fmt::format("{}: tensor '{}' is said to be in '{}', which is not the name of a {} "
                      "file beside the index",
                      where, tensor, shard, suffix));
    }
    index.file_of.emplace(tensor, shard);
  }
  return index;
}

std::string shard_index_text(std::span<const StoredTensor> tensors,
                             std::span<const std::string> files) {
  json map = json::object();
  std::int64_t total = 0;
  for (const StoredTensor& tensor : tensors) {
    map[tensor.name] = files[static_cast<std::size_t>(tensor.shard)];
    total += tensor.bytes;
  }
  const json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
  return index.dump(2) + "\n";
}

}  // namespace regauge::io
