#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge::io {

// model.safetensors.index.json.
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
