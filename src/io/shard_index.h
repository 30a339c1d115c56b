#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge::io {

inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

// What kIndexFile says.
struct ShardIndex {
  std::map<std::string, std::string> file_of;  // by tensor
  std::vector<std::string> files() const;      // sorted, each once
};

// The plain name of a .safetensors file, neither hidden nor in another folder.
bool is_shard_name(std::string_view name);

// Shards are plain names of files beside the index. Throws CorruptFile.
ShardIndex parse_shard_index(std::string_view text, const std::string& name);

std::string shard_index_text(std::span<const StoredTensor> tensors,
                             std::span<const std::string> files);

}  // namespace regauge::io
