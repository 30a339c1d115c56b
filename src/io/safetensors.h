#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge::io {

struct SafetensorsContents {
  std::vector<StoredTensor> tensors;  // by offset; offsets from the start of the file
  nlohmann::json metadata;            // __metadata__, or an empty object
};

// The checks of huggingface/safetensors in its order, and no duplicate keys. `file` is the whole
// file, `name` goes into messages. Throws CorruptFile; UsageError for a type that is not read
// (F8_*, ...).
SafetensorsContents parse_safetensors(const ByteRange& file, const std::string& name);

// Gives each of `tensors` (all of one file) its bytes and offset and returns the file's first
// bytes: length and padded header. Data lie in the given order, unless that would leave a tensor
// unaligned to its element size: then by falling element size, as the safetensors package does.
// Throws UsageError.
std::string lay_out_safetensors(std::span<StoredTensor*> tensors, const nlohmann::json& metadata);

}  // namespace regauge::io
