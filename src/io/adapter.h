#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "file_bytes.h"
#include "regauge/io/checkpoint.h"

namespace regauge::io {

inline constexpr const char* kAdapterConfig = "adapter_config.json";

// BASE and ADAPTER of a path BASE+ADAPTER; nothing if no way of cutting it names something that is
// there, and something that may be its adapter.
std::optional<std::pair<std::filesystem::path, std::filesystem::path>> base_and_adapter(
    const std::filesystem::path& path);

// A folder as PEFT writes it: adapter_config.json and adapter_model.safetensors.
struct AdapterFiles {
  std::filesystem::path path;  // of the weights
  std::shared_ptr<const FileBytes> bytes;
  std::vector<StoredTensor> tensors;
  std::string settings_text;
  nlohmann::json settings;
};
// Throws UsageError, FileError or CorruptFile.
AdapterFiles open_adapter(const std::filesystem::path& folder);

}  // namespace regauge::io
