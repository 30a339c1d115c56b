#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge::io {

inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";
inline constexpr const char* kTorchFile = "pytorch_model.bin";
inline constexpr const char* kTorchIndexFile = "pytorch_model.bin.index.json";

// What kIndexFile or kTorchIndexFile says.
struct ShardIndex {
  std::map<std::string, std::string> file_of;  // by tensor
  std::vector<std::string> files() const;      // sorted, each once
};

// The plain name of a .safetensors file, neither hidden nor in another folder.
bool is_shard_name(std::string_view name);

// Shards are plain names of files beside the index, which end as the index does ("x.bin" for
// "x.bin.index.json"). Throws CorruptFile.
ShardIndex parse_shard_index(std::string_view text, const std::string& name);

// What files of weights are called when they are written as safetensors: as in the library that
// names them so, "pytorch_model-00001-of-00002.bin" becomes "model-00001-of-00002.safetensors". All
// go into one file where it were processes that told them apart (.distcp).
std::vector<std::string> names_as_safetensors(const std::vector<std::filesystem::path>& files);

std::string shard_index_text(std::span<const StoredTensor> tensors,
                             std::span<const std::string> files);

}  // namespace regauge::io
